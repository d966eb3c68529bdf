"""What it takes to extend the suite, done to a copy of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.copied import copy, in_copy

__all__ = ["copy"]  # the fixture

CLASS = '''

class HalfNorm(Norm):
    """Rows centered and divided by a power of their variance."""

    def __init__(self, dim: int, *, power: float = 0.5) -> None:
        super().__init__()
        self.power = power

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + 1e-5) ** (self.power / 2)
'''


def test_a_norm_takes_a_class_a_line_and_a_file(copy: Path) -> None:
    with (copy / "src/adanorm/norms/rowwise.py").open("a") as module:
        module.write(CLASS)
    registry = copy / "src/adanorm/norms/registry.py"
    line = r'\g<0>    "halfnorm": rowwise.HalfNorm,' + "\n"
    text, lines = re.subn(r"^NORMS\b.*= \{\n", line, registry.read_text(), flags=re.MULTILINE)
    assert lines == 1
    registry.write_text(text)
    (copy / "conf/norm/halfnorm.yaml").write_text("name: halfnorm\ntitle: Half-Norm\nparams: {power: 0.5}\n")

    ran = in_copy(copy, "adanorm", "run", "-m", "task=mnist,rt", "norm=halfnorm", "scale=smoke", "runs=runs")
    assert re.findall(r"^(\w+ halfnorm) smoke seed 1: test accuracy", ran, re.MULTILINE) == [
        "mnist halfnorm",
        "rt halfnorm",
    ]
    assert "halfnorm: 8 of 8 checks hold" in in_copy(copy, "adanorm", "check-norm", "norm=halfnorm")
    assert "halfnorm" in in_copy(copy, "adanorm", "list")
    (copy / "own.yaml").write_text(
        "title: t\nrows: [layernorm, halfnorm]\ncolumns: [rt]\nscale: smoke\nseeds: [1]\n"
    )
    status = in_copy(copy, "adanorm", "status", "own.yaml", "runs=runs")
    assert re.search(r"^  Half-Norm +1 ", status, re.MULTILINE), status
    lists = ["tests/norms/test_registry.py", "tests/norms/test_check.py", "tests/scripts/test_norm_guide.py"]
    held = in_copy(copy, "pytest", *lists, "-k", "halfnorm or every_norm_has or every_section")
    assert "passed" in held
