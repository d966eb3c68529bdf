"""Composing from parts in memory gives what Hydra composes from the whole command line."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from adanorm.config.compose import UNTUNED, _from_files, compose_experiment, compose_values
from adanorm.config.experiment import NUMERICS
from adanorm.config.overrides import prepare_overrides
from adanorm.config.paths import CONF, choices
from adanorm.config.values import read_foreign_yaml, read_yaml, read_yaml_file
from adanorm.norms.registry import norm_factory
from adanorm.studies.study import load_studies
from tests.faults.mistakes import BOMB


def composed_whole(overrides: tuple[str, ...]) -> object:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return OmegaConf.to_container(compose("run", prepare_overrides(overrides)), resolve=True)


def settings_of_studies() -> list[tuple[str, ...]]:
    """Return command lines of rows of studies: for each key, that of the first row that sets it."""
    lines = []
    seen: set[str] = set()
    for study in load_studies().values():
        for label, row in study.rows.items():
            first_try = study.budget_of(label)[:1]
            settings = (*study.overrides, *row.overrides, *first_try)
            task = (row.only or study.columns)[0]
            if new := {setting.partition("=")[0] for setting in settings} - seen:
                lines.append(
                    (f"task={task}", f"norm={row.norm}", f"scale={study.scale}", *settings)
                )
                seen |= new
    return lines


ODD = (
    ("task=mnist", "norm=my.norms:My", "norm.params.k=1"),
    ("task=mnist", "norm=adanorm", "task_norm=[]", "task_norm_scale=[]"),
    (),
    ("training.lr=0.1", "task=rt", "training.lr=0.2", "scale=smoke"),
    ("task=de-en", "preset=released", "model.init=xavier"),
    ("task=mnist", "norm=batchnorm-noisy", "task_norm=mnist_batchnorm"),
    ("norm=layernorm", "scale=mini", "norm=adanorm", "norm.params.k='0.2'", "norm.params.C=null"),
    ("norm=rmsnorm", "norm.params.eps=1e-3", "++norm.params.eps=1e-4", "norm.params.eps=1e-2"),
    ("norm.params={}", "seed=${threads}", "threads=3"),
    ("norm.placement=[a.*,b]", "data.mirrors=[]", "runs='/x/a b'"),
    ("~norm.params", "+norm.params.k=1", "logger=wandb", "logger.project=${task.name}"),
    ("training.lr=9", "data.mirrors=[x]"),  # of the first ones' files
    ("training={lr: 0.5, max_epochs: 1}", "logger=tensorboard"),
)


# A norm's file is one section like every other's: each task has a norm of its own.
TASKS = [
    (f"task={task}", f"norm={norm}")
    for task, norm in zip(choices("task"), choices("norm"), strict=False)
]


@pytest.mark.parametrize("overrides", [*settings_of_studies(), *ODD, *TASKS], ids=" ".join)
def test_settings_compose_to_what_hydra_composes(overrides: tuple[str, ...]) -> None:
    assert compose_values(overrides) == composed_whole(overrides)


def test_no_norm_has_settings_of_its_own_on_the_untuned_task() -> None:
    task = UNTUNED.removeprefix("task=")
    assert not [name for name in choices("task_norm") if name.startswith(f"{task}_")]
    assert compose_experiment([UNTUNED, "norm=adanorm"]).norm.params == {"k": 0.1, "C": 1.0}
    assert compose_experiment(["task=mnist", "norm=adanorm"]).norm.params == {"k": 0.1, "C": 2}


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the configuration, which is read in place of the repository's."""
    shutil.copytree(CONF, tmp_path / "conf")
    for module in ("paths", "compose", "values"):
        monkeypatch.setattr(f"adanorm.config.{module}.CONF", tmp_path / "conf")
    _from_files.cache_clear()
    yield tmp_path / "conf"
    _from_files.cache_clear()


def test_settings_of_one_norm_on_a_task_and_scale_apply_to_no_other_norm(conf: Path) -> None:
    """Settings for the norm `none` do not apply to a user's own norm, which is composed in its place."""
    for norm in ("adanorm", "none"):
        file = conf / "task_norm_scale" / f"mnist_{norm}_mini.yaml"
        file.write_text("# @package _global_\ntraining: {lr: 0.5}\n")
    rates = {
        line: compose_values(["task=mnist", *line.split()])["training"]["lr"]
        for line in ("norm=adanorm scale=mini", "norm=none scale=mini", "norm=adanorm scale=paper",
                     "norm=rmsnorm scale=mini", "norm=my.norms:My scale=mini")
    }  # fmt: skip
    assert [*rates.values()] == [0.5, 0.5, 0.001, 0.001, 0.001]


@pytest.mark.parametrize(
    ("group", "original", "text"),
    [
        ("norm", "layernorm", "name: layernorm\ntitle: Mine\nparams: {}\n"),
        ("task", "rt", (CONF / "task" / "rt.yaml").read_text()),
        ("scale", "mini", "# @package _global_\nscale: mini\n"),
    ],
)
def test_a_copied_file_with_its_old_name_is_refused(
    conf: Path, group: str, original: str, text: str
) -> None:
    (conf / group / "mine.yaml").write_text(text)
    message = rf"^conf/{group}/mine\.yaml: its name is '{original}', not the file's$"
    with pytest.raises(ValueError, match=message):
        compose_experiment([f"{group}=mine"])


OF_TASK = {
    "large-batch": "en-de", "small-rate": "en-de", "wmt14-raw": "en-de", "wmt16-archive": "en-de",
    "tensor2tensor": "en-vi", "long": "de-en", "iwslt14-tokenized": "de-en", "released": "de-en",
    "alphanumeric": "rt", "ud": "ptb",
    "tatoeba-30k": "en-de scale=mini", "alt-8k": "en-vi scale=mini", "craft-3k": "ptb scale=mini",
}  # fmt: skip


def test_a_preset_for_other_tasks_is_refused_with_the_tasks_that_it_suits() -> None:
    with pytest.raises(
        ValueError, match=r"^preset=ud: choose a task that it suits: ptb \(data\.tags='upos'"
    ):
        compose_experiment(["task=rt", "preset=ud"])
    with pytest.raises(
        ValueError, match=r"^preset=released: choose a task .*: de-en, en-de, en-vi \("
    ):
        compose_experiment(["task=mnist", "preset=released"])
    with pytest.raises(ValueError, match=r"^preset=craft-3k: choose a task .*: ptb \("):
        compose_experiment(["task=rt", "scale=mini", "preset=craft-3k"])
    with pytest.raises(ValueError, match=r"^data\.tags='foo'"):
        compose_experiment(["task=ptb", "preset=ud", "data.tags=foo"])


@pytest.mark.parametrize("preset", [name for name in choices("preset") if name != "none"])
def test_a_preset_makes_another_experiment_of_its_task(preset: str) -> None:
    settings = f"task={OF_TASK[preset]}".split()
    plain = compose_experiment(settings)
    changed = compose_experiment([*settings, f"preset={preset}"])
    assert plain.digest != changed.digest
    tokens = {"large-batch": 458_752, "small-rate": 28_672}
    if preset in tokens:
        batch_tokens = changed.data.model_dump()["batch_tokens"]
        assert batch_tokens * changed.training.accumulate == tokens[preset]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &a [*a]", "levels deep"),
        ("- " * 60 + "x", "levels deep"),
        ("null: 1", "reads a key as None"),
        ("a: 2020-01-01", "neither text nor a number"),
        ("a: 1\na: 2", "twice"),
    ],
)
def test_yaml_that_is_endless_deep_or_not_plain_is_refused_in_one_line(text: str, why: str) -> None:
    for read in (read_yaml, read_foreign_yaml):
        with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
            read(text)
    assert why in str(refused.value) or "alias" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "an alias"),
        (BOMB.replace("[", "\n- ").replace("]", "").replace(",", "\n- "), "an alias"),
        ("[" * 30_000 + "]" * 30_000, "50 brackets"),
        ("a: " + "x" * 250_000, "more than 250,000 characters"),
    ],
)
def test_yaml_from_elsewhere_cannot_exhaust_the_machine(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"^[^\n]*{why}[^\n]*$"):
        read_foreign_yaml(text)
    plain = "norm: {placement: ['*.norm', '[a-c].*'], note: R&D * 2}"
    assert read_foreign_yaml(plain) == read_yaml(plain)


@pytest.mark.parametrize(
    "content", [b"", b"- a", b"words", b"# \xfc\na: 1", b"a:\n\tb: 1", b"a: 1\na: 2"]
)
def test_a_file_that_is_no_mapping_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=r"^\S+own\.yaml: [^\n]+$"):
        read_yaml_file(tmp_path / "own.yaml")


@pytest.mark.parametrize(
    ("mode", "numerics"),
    [
        ("layernorm", "paper"),  # origin
        ("none", "paper"),  # no_norm
        ("topk", "paper"),
        ("layernorm-simple", "released"),  # nowb
        ("adanorm", "released"),
        ("gradnorm", "released"),
    ],
)
def test_every_mode_of_the_released_code_has_its_own_numerics(mode: str, numerics: str) -> None:
    """In the release `origin` is torch's LayerNorm, and the modes of its own class are unbiased."""
    run = compose_experiment(["task=de-en", f"norm={mode}", "preset=released"])
    assert (run.norm.numerics, run.norm.placement) == (numerics, "final")
    norm = norm_factory(run.norm.choice)(4, site="final")
    x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    spread = x.std(unbiased=numerics == "released")
    y = (x - x.mean()) / spread
    expected: dict[str, torch.Tensor] = {
        "none": x,
        "gradnorm": x + y,
        "adanorm": float(run.norm.params.get("C", 1.0)) * (1 - 0.1 * y) * y,
    }
    assert torch.allclose(norm(x), expected.get(mode, y), atol=1e-4)


@pytest.mark.parametrize("norm", [*choices("norm"), "tests.norms.odd_norms:InPlace"])
def test_every_norm_takes_the_released_wiring_and_its_numerics_where_it_has_them(norm: str) -> None:
    run = compose_experiment(["task=de-en", f"norm={norm}", "preset=released"])
    has_choice = norm in NUMERICS and norm != "layernorm"
    assert run.norm.numerics == ("released" if has_choice else "paper")
    model: Any = run.model
    assert (run.norm.placement, model.init) == ("final", "released")
    norm_factory(run.norm.choice)
    typed = compose_experiment(
        ["task=de-en", f"norm={norm}", "preset=released", "norm.numerics=paper"]
    )
    assert typed.norm.numerics == "paper"


@pytest.mark.parametrize(
    "text",
    [
        *("010", "1:30", "0x10", "0b11", "-010", "2:0.5"),
        *("1_0", "1_0.5", "0_9", "9_", "-8_.1", "1_0e-3", "1e-1_0", "0_1E3", "1.5e+1_0"),
    ],
)
def test_numbers_that_two_versions_of_yaml_read_differently_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{re.escape(text)}' in line 1: write decimal digits"):
        read_yaml(f"seeds: [{text}]")
    assert read_yaml(f"seeds: ['{text}']") == {"seeds": [text]}
    assert read_yaml("a: [0, -1, 10, 0.5, 1.0e-05]") == {"a": [0, -1, 10, 0.5, 1e-5]}


def test_an_exponent_makes_a_number_as_in_yaml_1_2() -> None:
    assert read_yaml("a: [1e5, .5E1, -1.e-3, 0e0, 1e5x]") == {"a": [1e5, 5, -1e-3, 0, "1e5x"]}
    assert read_yaml("a: '1e5'") == {"a": "1e5"}
    with pytest.raises(ValueError, match="'1e-400' in line 1: is 0 in double precision"):
        read_yaml("a: 1e-400")


@pytest.mark.parametrize(
    "overrides",
    [
        "task=rt data.train= data.valid=b data.test=c",
        "task=rt data.train=''",
        "task=mnist data.path=",
        "task=mnist runs=",
        "task=mnist norm=adanorm norm.params.k=",
        "task=ptb data.conversion=' '",
    ],
)
def test_an_empty_value_is_refused_and_names_its_key(overrides: str) -> None:
    empty = next(part for part in overrides.split(" ") if part.partition("=")[2] in ("", "''", "'"))
    key = empty.partition("=")[0].rpartition(".")[2]
    with pytest.raises(ValueError, match=f"{key}=: is empty: give a value, or null"):
        compose_experiment(overrides.split(" ", overrides.count("=") - 1))


@pytest.mark.parametrize(
    "overrides",
    [
        "task=enwik8 model.layers=1000000000",
        "task=de-en model.layers=1000000000",
        "task=rt model.dim=2000000000",
        "task=rt model.layers=1000 model.dim=65536",
        "task=enwik8-lstm model.dim=1000000000",
        "task=ptb model.layers=1000000000",
        "task=mnist model.hidden=1000000000",
        "task=cifar10 model.blocks=[[1000000000]]",
        "task=gaussian data.train_size=1000000000",
        "task=gaussian data.inputs=1000000000",
        "task=enwik8 data.streams=1000000000",
        "task=enwik8 segments.train.length=1000000000",
        "task=de-en decoding.beam=1000000000",
        "task=mnist scale=smoke data.valid_size=1000000000",
    ],
)
def test_sizes_that_no_machine_has_memory_for_are_refused_in_one_line(overrides: str) -> None:
    with pytest.raises(
        ValueError, match=r"less than or equal to|have over 10,000,000,000 w"
    ) as caught:
        compose_experiment(overrides.split())
    assert "\n" not in str(caught.value)
