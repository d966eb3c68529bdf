"""Blocks of a kernel's work over torch's own OpenMP threads.

Threads of another pool would wait for the cores on which torch's threads still spin. Where torch has
no OpenMP that takes GCC's calls (GCC's, LLVM's and Intel's on Linux do), one thread does the work.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import torch

from adanorm.norms.kernels.compiling import Kernel, address_of, c_types, entry

GRAIN = 1 << 15  # elements that are worth more than one thread
PROCESS = os.getpid()

# Every thread takes the next block that nobody has taken, so a late one takes fewer.
SHARED_WORK = """
define void @work(ptr %job) {{
  %blocks_at = getelementptr {{i64, i64, ptr{types}}}, ptr %job, i32 0, i32 1
  %blocks = load i64, ptr %blocks_at
  %kernel_at = getelementptr {{i64, i64, ptr{types}}}, ptr %job, i32 0, i32 2
  %kernel = load ptr, ptr %kernel_at
{loads}
  br label %next
next:
  %block = atomicrmw add ptr %job, i64 1 monotonic
  %is_left = icmp slt i64 %block, %blocks
  br i1 %is_left, label %one, label %done
one:
  call void %kernel(i64 %block, i64 %blocks{values})
  br label %next
done:
  ret void
}}
"""


def run(kernel: Kernel, takes: str, *arguments: Any, blocks: int, elements: int) -> None:
    """Run a kernel of a block, the number of blocks and `takes` for each block.

    `elements` says how much work that is: little is done by this thread alone, more by all of
    torch's. OpenMP ends the threads that a smaller team leaves out, so there is none in between.
    """
    threads, team = torch.get_num_threads(), _team()
    # A forked child has none of its parent's threads, and OpenMP would wait for them.
    is_alone = threads == 1 or elements < GRAIN or team is None or os.getpid() != PROCESS
    if is_alone and blocks == 1:
        _of_a_block(kernel, takes)(0, 1, *arguments)
        return
    address, alone, job = _shared(takes)
    work = ctypes.byref(job(0, blocks, _address(kernel, takes), *arguments))
    if is_alone or team is None:
        alone(work)
    else:
        team(address, work, threads, 0)


@cache
def _of_a_block(kernel: Kernel, takes: str) -> Kernel:
    return entry(kernel, "ii" + takes)


@cache
def _address(kernel: Kernel, takes: str) -> int:
    return address_of(_of_a_block(kernel, takes))


@cache
def _team() -> Callable[..., None] | None:
    """Return OpenMP's function that calls another on every thread: the one that torch calls too."""
    function = getattr(ctypes.CDLL(None), "GOMP_parallel", None) if sys.platform == "linux" else None
    if function is not None:
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        function.restype = None
    return function


@cache
def _shared(takes: str) -> tuple[int, Any, Any]:
    """Return the address of a function of a job that does its blocks, itself, and the job's type."""
    names = [{"i": "i64", "n": "float", "b": "i8"}.get(kind, "ptr") for kind in takes]
    struct = "".join(f", {name}" for name in names)
    loads = "\n".join(
        f"  %at{i} = getelementptr {{i64, i64, ptr{struct}}}, ptr %job, i32 0, i32 {i + 3}\n"
        f"  %value{i} = load {name}, ptr %at{i}"
        for i, name in enumerate(names)
    )
    extended = [f"{name} zeroext" if name == "i8" else name for name in names]
    values = "".join(f", {name} %value{i}" for i, name in enumerate(extended))
    code = SHARED_WORK.format(types=struct, loads=loads, values=values)
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(code), machine)
    engine.finalize_object()
    address = engine.get_function_address("work")
    _KEPT.append(engine)

    class Job(ctypes.Structure):
        _fields_ = [("taken", ctypes.c_int64), ("blocks", ctypes.c_int64), ("kernel", ctypes.c_void_p)] + [
            (f"value{i}", kind) for i, kind in enumerate(c_types(takes))
        ]

    return address, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address), Job


_KEPT: list[Any] = []
