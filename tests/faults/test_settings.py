"""Settings that nothing reads, norms with stale bytecode, and folders whose files have packages' names."""

import json
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment, compose_values
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.config.readers import READERS
from tests.faults.command import run

OTHER = {  # a good value of a setting that has a reader, which no file has
    "training.label_smoothing": "0.03", "training.warmup_from": "1e-5", "training.betas": "[0.7,0.8]",
    "training.eps": "1e-5", "training.momentum": "0.3", "norm.numerics": "released",
    "norm.placement": "final",
    "norm.params.positions": "77", "norm.params.zero_centered": "true", "model.post_layers": "1",
    "model.dim": "48", "model.hidden_dropout": "0.37", "data.normalize": "true", "data.clean": "subwords",
    "data.longest": "77", "data.ratio": "3.3", "data.bpe_merges": "77", "data.dictionary_size": "777",
    "data.train_pairs": "77", "data.valid_every": "7", "data.conversion": "mine", "data.tags": "upos",
    "data.fold": "2", "decoding.length_penalty": "0.77",
}  # fmt: skip
VARIANTS = (
    "", "training.optimizer=sgd", "training.schedule=inverse_sqrt training.warmup_updates=0",
    "model.norm_position=sandwich", "model.layers=1", "data.path=somewhere",
    "decoding.length_penalties=[0.6,1]",
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", choices("task"))
def test_no_setting_makes_another_digest_of_a_run_that_does_not_read_it(task: str, variant: str) -> None:
    """Each is another experiment or a line that names who reads it, under every norm."""
    values = compose_values([f"task={task}"])
    keys = [(key, is_read) for settings, _, is_read in READERS for key in settings.split() if key in OTHER]
    keys = [(key, is_read) for key, is_read in keys if values.get(key.partition(".")[0]) is not None]
    for norm in choices("norm") if not variant else ("layernorm", "adanorm"):
        base = [f"task={task}", f"norm={norm}", "scale=smoke", *(f"++{word}" for word in variant.split())]
        plain = composed(base)
        if isinstance(plain, str):
            continue  # a variant of other models
        for key, is_read in keys:
            if f"{key}=" in variant:
                continue
            other = composed([*base, f"++{key}={OTHER[key]}"])
            if isinstance(other, Experiment):
                assert is_read(other), (norm, key)
            else:
                assert "\n" not in other
                assert is_read(plain) or key in other, (norm, key, other)


def composed(overrides: list[str]) -> Experiment | str:
    """Return the experiment, or the line that refuses it."""
    try:
        return compose_experiment(overrides)
    except ValueError as error:
        return str(error)


NORM = """
import importlib
from torch import nn

class Own(nn.Module):
    def __init__(self, dim):
        super().__init__()
        SCALE

    def forward(self, x):
        return x * self.scale
"""
SCALES = {  # by what is edited
    **dict.fromkeys(["own/norms.py", "own/__init__.py", "lone.py"], "self.scale = 1.0"),
    "own/deep/parts.py": "from own.deep.parts import scale; self.scale = scale",
    "own/later.py": "from own.later import scale; self.scale = scale",
    "own/named.py": "self.scale = importlib.import_module('own.' + 'named').scale",
}
MODULES = {"own/__init__.py": "own", "lone.py": "lone"}  # of the norm; else own.norms
OTHERS = ("own/__init__.py", "own/deep/__init__.py", "own/deep/parts.py", "own/later.py", "own/named.py")


@pytest.mark.nightly
@pytest.mark.parametrize("edited", SCALES)
def test_a_norm_beside_stale_bytecode_has_the_score_of_its_source(edited: str, tmp_path: Path) -> None:
    losses = {}
    for folder, has_bytecode in ((tmp_path / "stale", True), (tmp_path / "fresh", False)):
        for name in OTHERS:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("scale = 1.0\n" if "init" not in name else "")
        path = folder / (edited if edited in MODULES else "own/norms.py")
        path.write_text(NORM.replace("SCALE", SCALES[edited]))
        source = folder / edited
        os.utime(source, (1, 1))
        if has_bytecode:
            py_compile.compile(str(source))
        source.write_text(source.read_text().replace("1.0", "3.0"))
        os.utime(source, (1, 1))
        norm = f"norm={MODULES.get(edited, 'own.norms')}:Own"
        ended = run(["run", "task=gaussian", norm, "scale=smoke", f"runs={folder / 'runs'}"], folder)
        assert ended.code == 0, ended.stderr
        (result,) = folder.rglob("result.json")
        losses[has_bytecode] = json.loads(result.read_bytes())["test"]
    assert losses[True] == losses[False]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["yaml", "tqdm", "numpy", "torch", "hydra", "omegaconf", "pydantic", "json", "typing"]
)
@pytest.mark.parametrize("is_package", [False, True])
@pytest.mark.parametrize("command", ["list", "run", "status"])
def test_nothing_of_a_current_folder_runs(command: str, name: str, is_package: bool, tmp_path: Path) -> None:
    foreign = tmp_path / (f"{name}/__init__.py" if is_package else f"{name}.py")
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("open('EXECUTED', 'w')\nraise SystemExit(3)\n")
    given = {"list": (), "run": ("task=gaussian", "scale=smoke", "runs=runs"), "status": ("table4",)}[command]
    line = [sys.executable, "-m", "adanorm", command, *given]  # a new process, which has imported nothing
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert not (tmp_path / "EXECUTED").exists()
