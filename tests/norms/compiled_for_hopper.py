"""Compile Triton's kernels for a GPU that need not be here; run as a program, by test_fused."""

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from adanorm.norms.kernels import triton_rows

HOPPER = GPUTarget("cuda", 90, 32)


def code(kernel: Any, *, dtype: str, features: int, **settings: Any) -> str:
    """Return the PTX of a kernel for contiguous rows of this type, such as `bf16`, and width."""
    block = triton.next_power_of_2(features)
    together = max(1, triton_rows.ELEMENTS // block)
    shape = {"ROWS": together, "BLOCK": block}
    values = {"k": 0.1, "C": 1.5, "eps": 1e-5, "unbiased": 0.0, **settings, **shape}
    tensors = dict.fromkeys(("x", "z", "dz", "dx"), f"*{dtype}")
    tensors["variance"] = "*fp32"
    types = {
        name: tensors.get(name, "constexpr" if name in values else "i32")
        for name in kernel.arg_names
    }
    constants = {(index,): values[name] for index, name in enumerate(types) if name in values}
    aligned = [
        name for name in types if name in tensors or (name == "features" and features % 16 == 0)
    ]
    hints = {(list(types).index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = ASTSource(
        fn=kernel,
        signature=types,
        constexprs=constants,
        attrs=hints,
    )
    warps = min(32, together * block // triton_rows.ELEMENTS_A_WARP)
    return triton.compile(
        source,
        target=HOPPER,
        options={"num_warps": warps},
    ).asm["ptx"]


def main() -> None:
    """Compile both kernels for the widths and types that matter; raises where one does not compile."""
    gradient = {"detach_mean": False, "detach_variance": False, "needs_x": True}
    multiple = {"k": 0.0, "detach_mean": True, "detach_variance": True, "needs_x": False}
    for dtype, features in (
        ("bf16", 512),
        ("bf16", 4096),
        ("bf16", 16384),
        ("fp16", 1),
        ("fp32", 1000),
    ):
        for kernel, settings in ((triton_rows._forward, {}), (triton_rows._backward, gradient)):
            ptx = code(
                kernel,
                dtype=dtype,
                features=features,
                **settings,
            )
            # Sixteen bytes per load, which the full speed of the memory needs.
            assert features % 16 or "ld.global.v4" in ptx, (dtype, features)
    code(
        triton_rows._backward,
        dtype="bf16",
        features=512,
        **multiple,
    )
    code(
        triton_rows._backward,
        dtype="fp32",
        features=64,
        **{**gradient, "unbiased": 64 / 63},
    )


if __name__ == "__main__":
    main()
