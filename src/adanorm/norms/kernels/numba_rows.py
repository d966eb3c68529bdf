"""The closed form on the CPU, one row at a time, compiled by Numba, which needs no C compiler.

A row is read from memory once and is in the cache when it is read again. Letters are those of
norms.closed_form. There are R rows; all arrays are (R, H), contiguous and in float32, and variance
is (R,). fairseq's layers pass a transposed x (T, B, H), and copying it would cost as much as the
norm. Its rows therefore stay in memory order, batch by batch, and `across` is B; otherwise `across`
is 0.

Torch's own OpenMP threads share the rows: another pool's threads would wait for the cores on which
torch's still spin. If torch's OpenMP does not take GCC's calls (GCC's, LLVM's and Intel's on Linux
do), one thread does the work.
"""

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import cfunc, njit, types
from numba.extending import intrinsic
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.closed_form import Member, with_a_cache

Rows = np.ndarray[tuple[int, int], np.dtype[Any]]
Row = np.ndarray[tuple[int], np.dtype[Any]]
Number = Any  # np.float32: a Python float would make all arithmetic float64
Address = Any  # the address of a Job

Kernel = Callable[..., None]
F = TypeVar("F", bound=Callable[..., Any])
UNWRAPPED: Any = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # saves a sixth of the compile time
# Sums may be reordered, which lets them be vectorized; infinities and NaN keep their meaning.
# Inlining makes freshly compiled code round in the same way as code that comes from the cache
# later.
compiled: Callable[[F], F] = njit(
    forceinline=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz"},
    **UNWRAPPED,
)
BLOCKS = 32  # blocks of rows in a job
GRAIN = 1 << 15  # elements from which several threads pay off
PROCESS = os.getpid()


class Job(ctypes.Structure):
    """The arguments of a kernel: blocks of rows, sizes, addresses of arrays, a member's fields."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("taken", "blocks", "rows", "features", "across")),
        *((name, ctypes.c_int64) for name in ("x", "variance", "grad", "out")),
        *((name, ctypes.c_float) for name in ("k", "C", "eps")),
        *((name, ctypes.c_bool) for name in ("detach_mean", "detach_variance", "released")),
    ]


JOB = np.dtype(Job)
inline: Any = intrinsic  # a call has the result of the code that the function returns


@inline
def _next_block(_: Any, job: Any) -> Any:
    """Return the number of the next block that no thread has taken; a late thread takes fewer."""

    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        integer = ir.IntType(64)
        taken = builder.bitcast(arguments[0], integer.as_pointer())  # the first field of a job
        return builder.atomic_rmw(
            "add",
            taken,
            integer(1),
            "monotonic",
        )

    return types.int64(job), code


@inline
def _pointer(_: Any, address: Any) -> Any:
    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), code


@compiled
def _mean(row: Row) -> Number:
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += row[i]
    return total / row.dtype.type(row.shape[0])


@compiled
def _row_index(r: int, rows: int, across: int) -> int:
    """Return the index in memory of row r of x."""
    return r if across == 0 else (r % across) * (rows // across) + r // across


@compiled
def _scales(variance: Number, features: int, eps: Number, released: bool) -> tuple[Number, Number]:
    """Return 1/std and the factor of the variance's term in the gradient.

    With released numerics y = c/(s + eps), where c = x - mean and s is the unbiased deviation. Then
    ds/dx = c/((H-1) s), and the factor is H/(H-1) * (s + eps)/s.
    """
    if variance == np.inf:
        variance -= variance  # NaN, like torch's LayerNorm, instead of the zeros of 1/inf
    unit = type(variance)(1)
    if not released:
        return unit / np.sqrt(variance + eps), unit
    unbiased = type(variance)(features) / type(variance)(features - 1)
    std = np.sqrt(variance * unbiased)
    # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
    variance_factor = type(variance)(0) if std == 0 else unbiased * (std + eps) / std
    return unit / (std + eps), variance_factor


@compiled
def _forward_rows(
    first: int,
    last: int,
    x: Rows,
    across: int,
    z: Rows,
    variance: Row,
    k: Number,
    C: Number,
    eps: Number,
    released: bool,
) -> None:
    features = x.shape[1]
    for r in range(first, last):
        row = x[
            _row_index(
                r,
                x.shape[0],
                across,
            )
        ]
        out = z[r]
        mean = _mean(row)
        total = x.dtype.type(0)
        for i in range(features):
            total += (row[i] - mean) * (row[i] - mean)
        variance[r] = total / x.dtype.type(features)
        inverse_std, _ = _scales(
            variance[r],
            features,
            eps,
            released,
        )
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            out[i] = (C - C * k * y) * y


@compiled
def _backward_rows(
    first: int,
    last: int,
    dz: Rows,
    x: Rows,
    across: int,
    variance: Row,
    dx: Rows,
    k: Number,
    C: Number,
    detach_mean: bool,
    detach_variance: bool,
    eps: Number,
    released: bool,
) -> None:
    features = x.shape[1]
    for r in range(first, last):
        row = x[
            _row_index(
                r,
                x.shape[0],
                across,
            )
        ]
        grad = dz[r]
        out = dx[r]
        mean = _mean(row)  # computing it again is cheaper than saving a second statistic
        inverse_std, variance_factor = _scales(
            variance[r],
            features,
            eps,
            released,
        )
        sum_g = x.dtype.type(0)
        sum_gy = x.dtype.type(0)
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            g = (C - C * k * y) * grad[i]
            sum_g += g
            sum_gy += g * y
        mean_g = x.dtype.type(0) if detach_mean else sum_g / x.dtype.type(features)
        mean_gy = (
            x.dtype.type(0)
            if detach_variance
            else variance_factor * sum_gy / x.dtype.type(features)
        )
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            g = (C - C * k * y) * grad[i]
            out[i] = inverse_std * (g - mean_g - y * mean_gy)


@compiled
def _scale_rows(
    first: int, last: int, dz: Rows, variance: Row, dx: Rows, C: Number, eps: Number, released: bool
) -> None:
    """Write dl/dx = C/std * dl/dz, for constant mean, variance and factor; x is not needed."""
    for r in range(first, last):
        inverse_std, _ = _scales(
            variance[r],
            dz.shape[1],
            eps,
            released,
        )
        for i in range(dz.shape[1]):
            dx[r, i] = C * inverse_std * dz[r, i]


def _work(address: Address) -> None:
    """Compute blocks of a job: the forward pass if it has no grad, else the backward pass."""
    job = carray(address, 1, JOB)[0]
    rows, shape, across = job.rows, (job.rows, job.features), job.across
    x, dz = (
        carray(
            _pointer(job.x),
            shape,
            np.float32,
        ),
        carray(
            _pointer(job.grad),
            shape,
            np.float32,
        ),
    )
    out = carray(
        _pointer(job.out),
        shape,
        np.float32,
    )
    variance = carray(
        _pointer(job.variance),
        rows,
        np.float32,
    )
    block = _next_block(address)
    while block < job.blocks:
        first = block * rows // job.blocks
        last = (block + 1) * rows // job.blocks
        if job.grad == 0:
            _forward_rows(
                first, last, x, across, out, variance, job.k, job.C, job.eps, job.released
            )
        elif job.x == 0:
            _scale_rows(
                first,
                last,
                dz,
                variance,
                out,
                job.C,
                job.eps,
                job.released,
            )
        else:
            _backward_rows(
                first,
                last,
                dz,
                x,
                across,
                variance,
                out,
                job.k,
                job.C,
                job.detach_mean,
                job.detach_variance,
                job.eps,
                job.released,
            )
        block = _next_block(address)


def forward(x: Tensor, member: Member) -> tuple[Tensor, Tensor]:
    """Return z (..., H) in x's type and the biased variance (...) in float32."""
    rows, across = in_memory_order(x)
    z, variance = rows.new_empty(x.shape), rows.new_empty(x.shape[:-1])
    _run(
        member,
        z,
        variance,
        x=rows.data_ptr(),
        across=across,
    )
    return z.to(x.dtype), variance


def backward(grad: Tensor, x: Tensor | None, variance: Tensor, member: Member) -> Tensor:
    """Return dl/dx (..., H) in the type of grad = dl/dz; x is None if it is a multiple of that."""
    dz = grad.float().contiguous()
    dx = torch.empty_like(dz)
    rows, across = (None, 0) if x is None else in_memory_order(x)
    address = 0 if rows is None else rows.data_ptr()
    _run(
        member,
        dx,
        variance.contiguous(),
        grad=dz.data_ptr(),
        x=address,
        across=across,
    )
    return dx.to(grad.dtype)


def _run(member: Member, out: Tensor, variance: Tensor, **job: int) -> None:
    """Run a job over all rows of tensors (..., H), on all of torch's threads or, if few, on one."""
    elements, features = out.numel(), out.shape[-1]
    rows = elements // max(features, 1)
    k, C, detach_mean, detach_variance, eps, numerics = member
    work = ctypes.byref(
        Job(
            rows=rows,
            blocks=min(BLOCKS, rows),
            features=features,
            out=out.data_ptr(),
            variance=variance.data_ptr(),
            **job,
            k=k,
            C=C,
            eps=eps,
            detach_mean=detach_mean,
            detach_variance=detach_variance,
            released=numerics == "released",
        )
    )
    code = entry(_work)
    threads = torch.get_num_threads()
    team = _team()
    # A forked child has none of its parent's threads, and OpenMP would wait for them. OpenMP would
    # end the threads left out of a smaller team, so either all of torch's threads do the work or
    # this one alone.
    if threads == 1 or elements < GRAIN or team is None or os.getpid() != PROCESS:
        code(work)
    else:
        team(code, work, threads, 0)


@cache
def entry(function: Kernel) -> Kernel:
    """Return a kernel as a C function of one address; arrays per call cost as a small norm does."""
    # Numba's cache checks only the file of the function itself, but inlined code stands in other
    # files.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    code = with_a_cache(lambda: cfunc(types.void(types.voidptr), cache=True)(function))
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
    call.code = code  # a reference: the machine code is freed together with it
    return call  # releases the interpreter's lock while it runs


@cache
def _sources() -> str:
    """Return eight hexadecimal digits that change with every file of kernels."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()[:8]


@cache
def _team() -> Callable[..., None] | None:
    """Return OpenMP's function that calls another on every thread, as torch uses it, or None."""
    function = (
        getattr(
            ctypes.CDLL(None),
            "GOMP_parallel",
            None,
        )
        if sys.platform == "linux"
        else None
    )
    if function is not None:
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        function.restype = None
    return function


def in_memory_order(x: Tensor) -> tuple[Tensor, int]:
    """Return x in float32 with contiguous rows, transposed rather than copied, and `across`."""
    rows = x.float()
    if rows.dim() == 3 and not rows.is_contiguous():
        batch_first = rows.transpose(0, 1)
        if batch_first.is_contiguous():
            return batch_first, rows.shape[1]
    return rows.contiguous(), 0
