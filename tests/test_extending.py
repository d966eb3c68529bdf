"""Adding a norm and a kind of task to a copy of the repository, as CONTRIBUTING describes it."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from adanorm.config.paths import PROJECT
from tests import commands

NEEDED = (
    "src",
    "conf",
    "scripts",
    "tests",
    "docs/norms.md",
    "pyproject.toml",
    "results/published.csv",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository, without its records; Numba's compiled kernels, in __pycache__, are in it."""
    root = tmp_path / "copy"
    for name in NEEDED:
        source, target = PROJECT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.egg-info"))
        else:
            shutil.copy(source, target)
    return root


def in_copy(copy: Path, *arguments: str, code: int = 0) -> str:
    """Run `python -m <arguments>` in a copy and return what it printed; fail at another exit code."""
    paths = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = commands.run(
        *arguments,
        cwd=copy,
        environment=paths,
        imported="libraries",
        timeout=250,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


STUDY = "title: t\nrows: [layernorm, %s]\ncolumns: [%s]\nscale: smoke\nseeds: [1]\n"
CLASS = """

class HalfNorm(Norm):
    def __init__(self, dim: int, *, power: float = 0.5) -> None:
        super().__init__()
        self.power = power

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + 1e-5) ** (self.power / 2)
"""


def test_a_new_norm_takes_a_class_a_line_and_a_file(copy: Path) -> None:
    with (copy / "src/adanorm/norms/rowwise.py").open("a") as module:
        module.write(CLASS)
    registry = copy / "src/adanorm/norms/registry.py"
    line = r'\g<0>    "halfnorm": rowwise.HalfNorm,' + "\n"
    text, lines = re.subn(
        r"^NORMS\b.*= \{\n",
        line,
        registry.read_text(),
        flags=re.MULTILINE,
    )
    assert lines == 1
    registry.write_text(text)
    with (copy / "src/adanorm/norms/__init__.py").open("a") as package:
        package.write("\nfrom adanorm.norms.rowwise import HalfNorm  # noqa: F401\n")
    (copy / "conf/norm/halfnorm.yaml").write_text(
        "name: halfnorm\ntitle: Half-Norm\nparams: {power: 0.5}\n"
    )

    ran = in_copy(
        copy, "adanorm", "run", "-m", "task=mnist,rt", "norm=halfnorm", "scale=smoke", "runs=runs"
    )
    runs = re.findall(r"^(\w+ halfnorm) smoke seed 1: test accuracy", ran, re.MULTILINE)
    assert runs == ["mnist halfnorm", "rt halfnorm"]
    assert "halfnorm: 11 of 11 checks hold" in in_copy(
        copy, "adanorm", "check-norm", "norm=halfnorm"
    )
    assert "halfnorm" in in_copy(copy, "adanorm", "list")
    (copy / "own.yaml").write_text(STUDY % ("halfnorm", "rt"))
    status = in_copy(copy, "adanorm", "status", "own.yaml", "runs=runs")
    assert re.search(r"^  Half-Norm +1 ", status, re.MULTILINE), status
    names = "imported_from or every_norm_has or every_section or defaults_in_the_configuration"
    files = [f"tests/{name}.py" for name in ("norms/test_registry", "config/test_readers")]
    passed = in_copy(copy, "pytest", *files, "tests/scripts/test_pages.py", "-k", names)
    assert "passed" in passed


class Edit(NamedTuple):
    """Text to insert into a file, old or new, in front of the first match of `before`, or at its end."""

    file: str
    text: str
    before: str = r"\Z"


DATA = """

class Waves(GaussianConfig):
    kind = "denoising"
    reader: Literal["waves"]
    source: Literal["waves"]
"""
READER = """
import numpy as np
import torch
from adanorm.data.examples import ArrayExamples

def load_waves(data):
    sizes = {"train": data.train_size, "valid": data.valid_size, "test": data.test_size}
    splits = {}
    for seed, (split, size) in enumerate(sizes.items()):
        random = np.random.default_rng(seed)
        phase = random.uniform(0, 2 * np.pi, (size, 1))
        clean = np.sin(phase + np.linspace(0, 2 * np.pi, data.inputs))
        noisy = clean + data.noise * random.standard_normal(clean.shape)
        inputs, targets = (torch.from_numpy(values.astype(np.float32)) for values in (noisy, clean))
        splits[split] = ArrayExamples(inputs, targets, data.batch_size)
    return splits
"""
MODEL_SECTION = """class Denoiser(ModelConfig):
    reads = (Waves,)
    norm_sites = Sites(positions=False)
    name: Literal["denoiser"]
    dim: Positive


"""
MODEL = """
from torch import nn

class Denoiser(nn.Module):
    def __init__(self, make_norm, settings, *, points):
        super().__init__()
        self.hidden, self.output = nn.Linear(points, settings.dim), nn.Linear(settings.dim, points)
        self.norm = make_norm(settings.dim, site="norm", after="hidden")

    def forward(self, x):
        return self.output(self.norm(self.hidden(x)).relu())
"""
TASK = """
import torch
from adanorm.data.waves import load_waves
from adanorm.tasks import Evaluation, Loss, TrainingTask

class Denoising(TrainingTask):
    def __init__(self, experiment):
        self.examples = load_waves(experiment.data)
        super().__init__(experiment, self.examples, {}, points=experiment.data.inputs)

    def loss(self, model, batch, carried=()):
        errors = model(batch.inputs).float() - batch.targets
        return Loss(errors.square().sum(), errors.numel())

    def evaluate(self, model, split):
        with torch.inference_mode():
            errors = model(self.examples[split].inputs) - self.examples[split].targets
        return Evaluation({"loss": errors.double().square().mean().item()}, [])
"""
CONFIGURATION = """# @package _global_
# Waves.
task: {name: waves, title: Waves, kind: denoising, metric: loss, goal: min}
data:
  {reader: waves, source: waves, inputs: 32, outputs: 32, noise: 0.5, train_size: 4096, valid_size: 256,
   test_size: 256, batch_size: 64}
model: {name: denoiser, dim: 64}
training:
  {lr: 0.001, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.0, warmup_updates: 0, clip_norm: null,
   accumulate: 1, max_epochs: 20, max_updates: null, evaluate_every: null, average: null, diverge_after: 3}
cost: {cpu_hours: 0.01, cuda_hours: 0.01}
"""
SMOKE = """# @package _global_
data: {train_size: 256}
model: {dim: 16}
training: {max_epochs: 4, lr: 0.01}
"""
METRICS = '    "denoising": KindMetrics(("loss",), ("loss",), "mean squared error"),\n'
SECTIONS, TASKS = "src/adanorm/config/model_sections.py", "src/adanorm/tasks/__init__.py"
MODEL_CLASS = '    Denoiser: "adanorm.models.denoiser:Denoiser",\n'
IMPORT_DATA = "from adanorm.config.data_sections import Waves\n"
KIND = '    "denoising": "adanorm.tasks.denoising:Denoising",\n'

# The places of CONTRIBUTING's list "A kind of task", in its order.
PLACES: tuple[tuple[Edit, ...], ...] = (
    (Edit("src/adanorm/config/titles.py", METRICS, before='^    "regression": KindMetrics'),),
    (Edit("src/adanorm/config/data_sections.py", DATA),),
    (Edit("src/adanorm/data/waves.py", READER),),
    (
        Edit(SECTIONS, IMPORT_DATA, before="^from adanorm.config.sections"),
        Edit(SECTIONS, MODEL_SECTION, before="^class TransitionParserConfig"),
        Edit(SECTIONS, MODEL_CLASS, before="^    TransitionParserConfig: "),
    ),
    (Edit("src/adanorm/models/denoiser.py", MODEL),),
    (
        Edit("src/adanorm/tasks/denoising.py", TASK),
        Edit(TASKS, KIND, before='^    "parsing": '),
    ),
    (Edit("conf/task/waves.yaml", CONFIGURATION), Edit("conf/task_scale/waves_smoke.yaml", SMOKE)),
)


def make(edit: Edit, root: Path) -> None:
    path = root / edit.file
    text = path.read_text() if path.exists() else ""
    match = re.search(edit.before, text, re.MULTILINE)
    assert match is not None, f"{edit.file} has no {edit.before}"
    path.write_text(text[: match.start()] + edit.text + text[match.start() :])


@pytest.mark.nightly  # three quarters of a minute
def test_a_new_kind_of_task_takes_the_steps_of_contributing(copy: Path) -> None:
    text = (
        (PROJECT / "CONTRIBUTING.md")
        .read_text()
        .partition("**A kind of task**")[2]
        .partition("\n**")[0]
    )
    items = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
    assert len(PLACES) == len(items) <= 7
    for edits, item in zip(PLACES, items, strict=True):
        for edit in edits:
            folder = edit.file if edit.file in item else str(Path(edit.file).parent)
            assert folder in item, f"{edit.file} is not in: {item}"
            make(edit, copy)

    norms = "layernorm,adanorm,batchnorm,weightnorm"
    ran = in_copy(
        copy, "adanorm", "run", "-m", "task=waves", f"norm={norms}", "scale=smoke", "runs=runs"
    )
    losses = re.findall(r"^waves (\S+) smoke seed 1: test loss ([\d.]+)", ran, re.MULTILINE)
    assert [norm for norm, _ in losses] == norms.split(",")
    assert all(0 < float(loss) < 0.45 for _, loss in losses), "below the variance of a wave"
    (copy / "own.yaml").write_text(STUDY % ("adanorm", "waves"))
    table = in_copy(copy, "adanorm", "study", "own.yaml", "runs=runs")
    assert "2 runs, 2 completed before" in table
    assert "Waves, test loss, smoke" in table
    assert "waves" in in_copy(copy, "adanorm", "list")
    refused = in_copy(
        copy, "adanorm", "run", "task=waves", "norm=instancenorm", "scale=smoke", code=2
    )
    assert "its statistics are over positions" in refused
    kinds = in_copy(copy, "pytest", "tests/config/test_titles.py", "-k", "every_kind or denoising")
    assert "2 passed" in kinds
    before = json.loads((copy / "tests/golden_losses.json").read_text())
    in_copy(copy, "tests.golden", "write")
    after = json.loads((copy / "tests/golden_losses.json").read_text())
    assert len(after["losses"].pop("waves")) > 1
    assert after == before, "losses on file stay"
    assert re.search(r"waves: \d+ equal, 0 within", in_copy(copy, "tests.golden", "waves"))
