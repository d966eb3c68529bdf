"""Settings that nothing reads are refused, and equal experiments have one digest."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest

from adanorm.config.compose import UNTUNED, compose_experiment, compose_values
from adanorm.config.data_sections import SPLITS
from adanorm.config.experiment import DEFAULTS, NUMERICS, Experiment, check_readers
from adanorm.config.sections import Config
from adanorm.config.values import dotted
from adanorm.norms.registry import NORMS
from adanorm.runs.execute import execute

UNREAD = [
    ("norm=rmsnorm norm.numerics=released", "read by norm=layernorm, layernorm-simple"),
    ("norm=none norm.numerics=released", "read by norm="),
    ("norm=layernorm norm.placement=final", "read by every norm but plain layernorm"),
    ("task=enwik8 +training.label_smoothing=0.1", "read by classification and translation"),
    ("task=ptb +training.label_smoothing=0.1", "read by classification and translation"),
    ("task=gaussian +training.label_smoothing=0.1", "read by classification and translation"),
    ("task=rt +training.warmup_from=0.1", "read by training.schedule=inverse_sqrt"),
    (
        "task=de-en training.warmup_updates=0 training.warmup_from=0.1",
        "training.warmup_updates above 0",
    ),
    (
        "task=rt training.optimizer=sgd training.betas=[0.9,0.9]",
        "read by training.optimizer=adam or muon",
    ),
    ("task=rt training={optimizer:sgd,eps:0.1}", "read by training.optimizer=adam or muon"),
    (
        "task=rt model.norm_position=sandwich model.pre_norm=false",
        "read by model.norm_position=null",
    ),
    ("task=enwik8-lstm model.layers=1 model.dim=8", "read by model.layers above 1"),
    ("task=enwik8-gru model.layers=1 model.hidden_dropout=0.3", "read by model.layers above 1"),
    ("task=rt norm=batchnorm norm.params.positions=8", "read by norm.params.over=examples"),
    (
        "norm=rmsnorm norm.params.gain=false norm.params.zero_centered=true",
        "read by norm.params.gain=true",
    ),
    (
        "task=de-en +decoding.length_penalties=[0.6,1] decoding.length_penalty=0.6",
        "length_penalties=null",
    ),
    (
        "task=de-en data.path=x data.longest=9",
        "read by data.path=null: a data-bin is prepared already",
    ),
    (
        "task=de-en data.train=a data.valid=b data.test=c data.valid_every=9",
        "without validation pairs",
    ),
    ("task=ptb data.source=ptb-sample data.tags=upos", "read by data.path and data.train"),
    ("task=ptb data.source=ptb-sample data.conversion=mine", "read by data.path and data.train"),
    (
        "task=rt training.momentum=0.5",
        "read by training.optimizer=sgd or muon; Adam's are its betas",
    ),
    ("task=rt model.post_layers=1", "read by model.norm_position=mix"),
    ("task=ptb data.fold=2", "read by data.source=ptb-sample"),
    ("task=enwik8-lstm ++segments.train.memory=999", "a recurrent one carries its state on"),
    ("task=enwik8-lstm +segments.valid.clamp=5", "a recurrent one carries its state on"),
    ("task=enwik8-lstm +segments.test.same_length=true", "a recurrent one carries its state on"),
    (
        "task=rt ++decoding={beam:4,length_penalty:1,max_ratio:1,max_extra:9,batch_tokens:99}",
        "translation",
    ),
    (
        "task=mnist ++segments={train:{length:8},valid:{length:8},test:{length:8}}",
        "read by language models",
    ),
]


@pytest.mark.parametrize(("line", "readers"), UNREAD)
def test_a_setting_that_nothing_reads_is_refused_with_its_readers(line: str, readers: str) -> None:
    *first, last = line.split()
    key = last.lstrip("+").partition("=")[0]
    with pytest.raises(
        ValueError, match=rf"^{key}[^\n]*: nothing reads it in this run; "
    ) as refused:
        compose_experiment(["scale=smoke", *first, last])
    assert readers in str(refused.value)


EQUAL = [
    (
        "task=mnist norm=adanorm task_norm=mnist_batchnorm",
        "norm.params.C=null",
        "norm.params.k=null",
    ),
    ("task=gaussian norm=adanorm", "norm.params.C=null", "norm.params.C=1", "norm.params.C=1.0"),
    (
        "task=rt norm=adanorm",
        "norm.params.eps=1e-5",
        "norm.params.learn_C=false",
        "norm.placement=['*']",
    ),
    (
        "task=rt norm=layernorm",
        "norm.params.eps=0.00001",
        "norm.params.gain=true",
        "norm.numerics=paper",
    ),
    (
        "task=rt norm=batchnorm",
        "norm.params.over=rows",
        "norm.params.momentum=0.1",
        "norm.params.eps=null",
    ),
    (
        "task=rt",
        "training.label_smoothing=0",
        "+training.warmup_from=0.0",
        "model.attention_dropout=0",
        "model.word_dropout=0",
    ),
    ("task=rt training.optimizer=sgd", "training.momentum=0"),
    ("task=rt", "training.average={of:best,count:1}", "training.optimizer=adam", "seed=1"),
    ("task=rt model.pre_norm=true", "model.norm_position=pre"),
    ("task=rt model.pre_norm=false", "model.norm_position=post"),
    ("task=rt model.layers=8 model.norm_position=mix", "model.post_layers=2"),
    ("task=rt model.norm_position=hybrid", "model.qk_norm=head"),
    ("task=mnist", "model.norm_position=pre"),
    ("task=ptb", "model.norm_position=pre"),
    ("task=rt norm=layernorm", "norm.params.eps=null", "norm.backend=eager"),
    ("task=rt norm=adanorm", "norm.placement=['*','*']", "norm.placement=['a','*']"),
    ("task=rt norm=adanorm norm.placement=['a','b.*']", "norm.placement=['b.*','a','b.*']"),
    ("norm=adanorm norm.params.k=0.2", "norm.path=null"),
    (
        "norm=rmsnorm",
        "device=cpu",
        "threads=2",
        "norm.backend=eager",
        "data.mirror=x",
        "logger=wandb",
    ),
]


@pytest.mark.parametrize("line", EQUAL, ids=lambda line: line[0])
def test_equal_experiments_have_one_digest(line: tuple[str, ...]) -> None:
    choice, *same = line
    plain = compose_experiment(["scale=smoke", *choice.split()]).identity
    for setting in same:
        assert compose_experiment(["scale=smoke", *choice.split(), setting]).identity == plain


def test_defaults_in_the_configuration_of_a_norm_are_those_of_its_class() -> None:
    for name, norm in NORMS.items():
        listed = compose_values([UNTUNED, f"norm={name}"])["norm"]["params"]
        parameters = inspect.signature(norm).parameters
        assert {*(listed or ())} <= {*parameters}, name
        assert (name in NUMERICS) == ("numerics" in parameters)
        for key in {*parameters} - {"dim", "numerics", "backend"}:
            value = listed.get(key)
            default = DEFAULTS.get(key) if value is None else value
            assert parameters[key].default == default, (
                name,
                key,
            )


def reads(monkeypatch: pytest.MonkeyPatch, run: Experiment) -> set[str]:
    """Return the settings `section.name` of data, training and decoding that making a run looks up."""
    sections = {section: getattr(run, section) for section in ("data", "training", "decoding")}
    names = {type(value): section for section, value in sections.items()}
    looked_up: set[str] = set()

    def look_up(section: Config, name: str) -> Any:
        if type(section) in names and name in type(section).model_fields:
            looked_up.add(f"{names[type(section)]}.{name}")
        return object.__getattribute__(section, name)

    with monkeypatch.context() as patched:
        patched.setattr(Config, "__getattribute__", look_up)
        execute(run)
    return looked_up


@pytest.mark.parametrize(
    "line",
    [
        "task=mnist", "task=rt training.optimizer=sgd", "task=rt training.schedule=inverse_sqrt",
        "task=gaussian", "task=ptb data.source=ptb-sample", "task=enwik8-rnn", "task=enwik8",
    ],
)  # fmt: skip
def test_a_setting_is_read_or_refused(
    smoke: Callable[..., Experiment],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    line: str,
) -> None:
    """A setting that a run looks up while it is made is accepted; any other is refused."""
    if "ptb-sample" in line:
        request.getfixturevalue("mirror")  # it is skipped without real data
    chosen = compose_values([*line.split(), "scale=smoke"])
    run = smoke(*line.split(), "training.max_updates=2")
    looked_up = reads(monkeypatch, run)
    paths = {
        f"data.{name}"
        for name in ("cache", "mirror", "mirrors", "reader", "path", "train", *SPLITS)
    }
    for key, _ in dotted(chosen):
        section, _, name = key.partition(".")
        is_looked_at = section in ("data", "training", "decoding") and key not in paths
        if not is_looked_at or name.startswith("average") or key == "data.source":
            continue
        changed = deepcopy(chosen)
        changed[section][name] = "another"
        refusal = pytest.raises(ValueError, match=f"^{key}=another: nothing")
        with nullcontext() if key in looked_up else refusal:
            check_readers(run, changed, chosen)
