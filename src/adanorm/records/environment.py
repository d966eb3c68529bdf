"""What a run is computed with: versions, hardware, the commit and the uncommitted changes."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from adanorm.config.paths import CONF, IS_CHECKOUT, PACKAGE, PROJECT
from adanorm.config.values import sha256
from adanorm.files import Fields, Values
from adanorm.process import HELD, VARIABLE, processor_fact, products
from adanorm.records.result import Count, validated

if TYPE_CHECKING:
    import torch

PACKAGES = ("adanorm", "torch", "numpy", "hydra-core", "ve-fairseq", "sacrebleu")
CONSTRAINTS = PROJECT / "constraints.txt"
DRIVER = Path("/sys/module/nvidia/version")
CONTROL_DEVICE = Path("/dev/nvidiactl")  # NVIDIA's driver makes it if there is a GPU


def describe(
    *, device: torch.device, precision: str, processes: int, threads: int, **norm_facts: str | int
) -> Values:
    """Return code, commit, versions, hardware and `norm_facts`, without a path or the host's name."""
    import torch

    code = _code()
    committed = commit()
    return {
        "code": _digest_of(code),
        "commit": committed,
        "dirty": None if committed is None else _differs_from_commit(code),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        **({"constraints": sha256(CONSTRAINTS)} if CONSTRAINTS.exists() else {}),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        **(_cuda() if device.type == "cuda" else {}),
        "arithmetic": _arithmetic(),
        "precision": precision,
        "processes": processes,
        "threads": threads,
        **norm_facts,
    }


Text = Annotated[str, Field(max_length=1000)]
DeviceName = Annotated[str, Field(max_length=200)]


class _Environment(BaseModel):
    """What `describe` returns; older records lack some of it, and newer ones may have more."""

    model_config = ConfigDict(strict=True)

    code: Text | None = None
    commit: Text | None = None
    dirty: bool | None = None
    python: Text | None = None
    packages: dict[Text, Text | None] = Field(default_factory=dict)
    constraints: Text | None = None
    system: Text | None = None
    machine: Text | None = None
    device: DeviceName | None = None
    cuda: Text | None = None
    cudnn: Count | None = None
    nccl: Text | None = None
    driver: Text | None = None
    tf32: dict[Text, bool] = Field(default_factory=dict)
    bf16_sums_rounded: bool | None = None
    arithmetic: dict[Text, Text | None] = Field(default_factory=dict)
    precision: Text | None = None
    processes: Count | None = None
    threads: Count | None = None
    norm_backend: Text | None = None
    numerics_version: Count | None = None
    # Size and checksum of a patch that is too large to keep.
    changes: dict[Text, Text | Count] = Field(default_factory=dict)


def check_environment(values: Fields, name: str = "environment.json: ") -> None:
    """Raise ValueError if these are no facts of `describe`; `name` stands before the key."""
    validated(_Environment, values, name)


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver; None if it is not loaded."""
    return DRIVER.read_text("utf-8").strip() if DRIVER.exists() else None


def _cuda() -> Values:
    """Return the versions of CUDA, its libraries and the driver, and what is rounded to TF32 or bf16."""
    import torch

    nccl: Any = torch.cuda.nccl.version() if torch.distributed.is_nccl_available() else ()  # type: ignore[no-untyped-call]
    matmul = torch.backends.cuda.matmul
    convolutions = torch.backends.cudnn.allow_tf32
    return {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "nccl": ".".join(map(str, nccl)) or None,
        "driver": driver_version(),
        "tf32": {"products": matmul.allow_tf32, "convolutions": convolutions},
        "bf16_sums_rounded": bool(matmul.allow_bf16_reduced_precision_reduction),
    }


# What a checkpoint stores of the start that wrote it. These and the experiment decide the bits of a
# run.
ORIGIN = (
    "code",
    "commit",
    "python",
    "packages",
    "device",
    "arithmetic",
    "norm_backend",
    "numerics_version",
)


def origin(environment: Fields) -> Values:
    """Return the facts of `describe` that decide a run's bits."""
    return {key: environment[key] for key in ORIGIN if key in environment}


# Environment variables that hold libraries to fewer instructions, or choose the library of
# products.
HOLDS = (VARIABLE, *HELD, "MKL_ENABLE_INSTRUCTIONS")


def _arithmetic() -> dict[str, str]:
    """Return what decides the last digits on a CPU: instructions, libraries, variables of HOLDS."""
    import torch

    patterns = (r"Math Kernel Library Version ([\d.]+)", r"BLAS_INFO=(\w+)", r"MKL-DNN v([\d.]+)")
    mkl, blas, onednn = (re.search(pattern, torch.__config__.show()) for pattern in patterns)
    product = f"MKL {mkl[1]}" if mkl else blas and blas[1]
    libraries = {
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "BLAS": product,
        "oneDNN": onednn and onednn[1],
        "products": "oneDNN" if onednn and products() == "onednn" else product,
        "denormals": None if torch.tensor(1e-39).mul(1) else "flushed to zero",
        **{name: os.environ.get(name) for name in HOLDS},
    }
    return {name: value for name, value in libraries.items() if value is not None}


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """Return the name of this machine's processor."""
    return processor_fact("model name") or platform.processor()


CODE = ("src", "conf", "pyproject.toml", "constraints.txt")  # paths that a run's numbers depend on
NO_CODE = (".", "__pycache__", "shipped")  # how the names of folders and files start
LARGEST_PATCH = 256_000  # bytes of changes that a record keeps; `code` identifies larger ones too


def _digest_of(code: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of the names and contents of code."""
    lines = []
    for name, content in sorted(code.items()):
        lines.append(f"{name} {hashlib.sha256(content).hexdigest()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _code() -> dict[str, bytes]:
    """Return the contents of the code by name as in a checkout: of one, an archive or a wheel."""
    roots = {name: PROJECT / name for name in CODE}
    if not IS_CHECKOUT:
        roots = {"src/adanorm": PACKAGE, "conf": CONF}
    contents = {}
    for name, root in roots.items():
        if root.is_file():
            contents[name] = root.read_bytes()
        for folder, folders, files in os.walk(root):
            folders[:] = filter(_is_code, folders)
            inside = name + folder.removeprefix(str(root))
            for file in filter(_is_code, files):
                path = Path(folder, file)
                if path.is_file():
                    contents[f"{inside}/{file}"] = path.read_bytes()
    return contents


def _is_code(name: str) -> bool:
    """Return whether a file or folder in CODE is code: neither made, hidden, nor shipped data."""
    return not name.startswith(NO_CODE) and not name.endswith(".egg-info")


def commit() -> str | None:
    """Return the commit of this checkout; None where git does not answer for this project.

    Git may answer for a repository around an archive of the project.
    """
    answer = _git("rev-parse", "--show-toplevel", "HEAD").decode().strip()
    top, _, head = answer.rpartition("\n")
    is_ours = Path(top).resolve() == PROJECT.resolve()
    return head if top and is_ours else None


def _differs_from_commit(code: Mapping[str, bytes]) -> bool:
    """Return whether code differs from its commit's own tree."""
    committed = {}
    tree = _git(
        "ls-tree",
        "-r",
        "-z",
        "--full-tree",
        "HEAD",
        "--",
        *CODE,
    )
    for entry in tree.split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        path = name.decode()
        if path and all(map(_is_code, path.split("/"))):
            committed[path] = facts.split()[2].decode()
    digits = {*map(len, committed.values())}
    algorithm = "sha256" if digits == {64} else "sha1"
    return committed != {name: _blob(content, algorithm) for name, content in code.items()}


def _blob(content: bytes, algorithm: str) -> str:
    """Return git's name for a file's content in a repository of an algorithm."""
    head = b"blob %d\0" % len(content)
    return hashlib.new(algorithm, head + content, usedforsecurity=False).hexdigest()


def changes() -> bytes:
    """Return the uncommitted changes of the code, new files too, as a patch for `git apply`."""
    listed = _git(
        "ls-files",
        "--others",
        "--exclude-standard",
        "-z",
        "--",
        *CODE,
    )
    diff = ("diff", "--no-ext-diff", "--binary")
    patch = _git(*diff, "HEAD", "--", *CODE)
    for path in filter(None, listed.decode().split("\0")):
        patch += _git(*diff, "--no-index", "--", os.devnull, path)
    return patch


def variables_for_git() -> dict[str, str]:
    """Return this process's variables without a hook's, which name another repository or index."""
    return {name: os.environ[name] for name in os.environ if not name.startswith("GIT_")}


def _git(*arguments: str) -> bytes:
    """Return what git prints about this checkout; nothing if there is no checkout or no git."""
    settings = ("-c", "core.quotePath=false", "-c", "diff.noprefix=false", "-c", "color.ui=false")
    command = ["git", "--no-replace-objects", "-C", str(PROJECT), *settings, *arguments]
    if not IS_CHECKOUT:
        return b""
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=variables_for_git(),
        )
    except OSError:
        return b""
    # git ends with 1 where two files differ, and with 128 in an unpacked archive.
    return process.stdout if process.returncode in (0, 1) else b""


def code_text(environment: Fields) -> str:
    """Return the code of an environment in words: its commit, its digest, whether it had changes."""
    digest = environment.get("code")
    text = environment.get("commit") or "unknown"
    if environment.get("dirty"):
        text += " and uncommitted changes"
    if digest is None or environment.get("dirty") is False:
        return text
    return f"{text}, code {digest[:16]}"


# The version rises when the random numbers or the rounding of the same experiment change on the
# CPU. Across versions compare the distributions of scores, not their bits. The versions:
# 1 (records that name none): PyTorch's own dropout, products and optimizer.
# 2: products by oneDNN, dropout by a counter, AdamW in one pass (models/fast_layers and
#    training/optimizer); our kernels for norms outside the paper's family (CHANGED_IN_3); another
#    noise in batchnorm-noisy.
# 3: PyTorch's operations for those norms, and its generator for that noise. Other norms: as in 2.
# 4: PowerNorm by rsqrt, which rounds alike on all processors. Other norms: as before.
# 5: as 2 to 4, on a CPU where MKL is faster than oneDNN and computes the products.
# 6: InstanceNorm and GroupNorm of images by torch's kernel for contiguous tensors.
# 7: Transformer-XL's attention by aligned rows, and a translation's attention to its source by
#    PyTorch's fused attention. Other models: as before.
# 8: as 7, on a CPU where MKL computes the products.
# Denormals flushed to zero have no version: only runs that reach them change, and `arithmetic` says so.
CHANGED_IN_3 = {
    "batchnorm-noisy", "powernorm", "instancenorm", "groupnorm",
    "rmsnorm", "partial-rmsnorm", "simple-rmsnorm", "preaffine-rmsnorm", "scalenorm",
    "dynamic-tanh", "derf", "pointwise", "seednorm", "gatednorm",
}  # fmt: skip
CHANGED_IN_7 = {"transformer_xl", "fairseq_transformer"}


def numerics_version(norm: str, model: str, device: torch.device) -> int:
    """Return the version of our numerics in runs of a norm in a model on a device."""
    is_mkl = device.type == "cpu" and products() == "mkl"
    if model in CHANGED_IN_7:
        return 8 if is_mkl else 7
    if norm in ("instancenorm", "groupnorm"):
        return 6
    if is_mkl:
        return 5
    return 4 if norm == "powernorm" else 3 if norm in CHANGED_IN_3 else 2


def peak_memory(device: torch.device) -> int:
    """Return the peak memory of this process in bytes: allocated on a GPU, or resident."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # Not getrusage's ru_maxrss: in a spawned process that starts at its parent's value.
    lines = (line.split() for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return next(1024 * int(line[1]) for line in lines if line[:1] == ["VmHWM:"])


def usable_devices() -> int:
    """Return how many CUDA devices torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_devices(gpus: int, *, is_required: bool = False) -> None:
    """Raise ValueError if a run's GPUs are not there, or if torch cannot use this machine's.

    A run asks for GPUs if it needs more than one, or has device=cuda (`is_required`). A run that
    does not ask is computed on the CPU, without an error, if CUDA_VISIBLE_DEVICES hides the
    devices, or if it runs in a container that has no device but sees the machine's driver.
    """
    count = usable_devices()
    is_required = is_required or gpus > 1
    if count == 0 and (
        is_required or (driver_version() and CONTROL_DEVICE.exists() and not _are_hidden())
    ):
        raise ValueError(
            f"{'GPUs asked for, and' if is_required else 'an NVIDIA GPU, and'} {no_cuda()}"
        )
    if is_required and gpus > count:
        devices = "1 CUDA device" if count == 1 else f"{count} CUDA devices"
        raise ValueError(
            f"gpus={gpus}: this machine has {devices}; name at most as many, or device=cpu"
        )


def _are_hidden() -> bool:
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles")  # the last is SLURM's


def no_cuda() -> str:
    """Return why torch sees no CUDA device here, and what to install."""
    import torch

    cuda, driver = torch.version.cuda, driver_version()
    if driver and cuda and not CONTROL_DEVICE.exists():
        remedy = "give this container its GPUs, as `docker run --gpus all` does"
    elif _are_hidden():
        remedy = "unset CUDA_VISIBLE_DEVICES, which hides them"
    elif driver is None or cuda is None:
        parts = {"NVIDIA's driver": driver, "a CUDA build of torch": cuda}
        missing = " and ".join(name for name, version in parts.items() if version is None)
        remedy = f"install {missing}, see docs/howto/gpus.md"
    else:
        remedy = (
            f"install a driver for CUDA {cuda}, or torch built for this driver: docs/howto/gpus.md"
        )
    return (
        f"torch sees no CUDA device: torch {torch.__version__} is built for"
        f" {f'CUDA {cuda}' if cuda else 'no CUDA'}, NVIDIA's driver is {driver or 'not installed'};"
        f" {remedy}; device=cpu computes on the CPU"
    )
