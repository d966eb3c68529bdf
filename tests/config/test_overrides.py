"""Overrides in any spelling: paths, parameters, the range of every number, and what a grid fixes."""

import json
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from adanorm.config.compose import compose_experiment, compose_values
from adanorm.config.overrides import check_fixed, differences, prepare_overrides, quoted, swept

CHARACTERS = st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" \\'\"${}=,()")


@given(st.text(CHARACTERS, min_size=1, max_size=12))
@example("/x/cl one ü")
@example("it's, = (a) \\")
@example("\\'")
@example("${seed}")
@example("a\\${seed}'b")
@example("null")
@example("$x{y}")
@settings(max_examples=60)
def test_a_path_of_any_characters_is_read_as_it_is(text: str) -> None:
    override = f"data.cache={quoted(text)}"
    assert compose_values([override])["data"]["cache"] == text


@pytest.mark.parametrize(
    "path",
    [
        "/x/ü",
        "/x/a b",
        "/x/a,b",
        "/x/a=b",
        "/x/it's",
        "/x/(1)",
        "/x/a\tb",
        "2024",
        "1e5",
        "true",
        "~x",
    ],
)
def test_paths_need_no_quotes(path: str) -> None:
    run = compose_experiment([f"runs={path}", f"++data.mirror={path}"])
    assert (run.runs, run.data.mirror) == (path, path)


def test_what_sets_runs_of_a_sweep_apart_is_shown_without_the_escapes_of_hydra() -> None:
    sweep = prepare_overrides(["-m", "norm=my_norms:A,my_norms:B", "seed=1"])[1:]
    assert differences([*product(*map(swept, sweep))]) == [
        "norm.path=my_norms:A",
        "norm.path=my_norms:B",
    ]


def test_quotes_and_null_keep_their_meaning_and_a_comma_separates_the_paths_of_a_sweep() -> None:
    assert compose_experiment(["runs='/x/a b'"]).runs == "/x/a b"
    assert compose_experiment(["runs=null"]).runs is None
    assert prepare_overrides(["-m", "data.train=a ü,b"]) == ["-m", "data.train='a ü','b'"]


@pytest.mark.parametrize("norm", ["layernorm", "adanorm", "rmsnorm", "groupnorm"])
def test_every_parameter_of_a_norm_can_be_set_without_a_plus(norm: str) -> None:
    from adanorm.norms.base import parameters_of
    from adanorm.norms.registry import NORMS

    for name in parameters_of(NORMS[norm]):
        run = compose_experiment([f"norm={norm}", f"norm.params.{name}=0.5"])
        assert run.norm.params[name] == 0.5
        plus = compose_experiment([f"norm={norm}", f"++norm.params.{name}=0.5"])
        assert plus.digest == run.digest


REFUSED = [
    # names
    (
        "norm=none norm.params.gain=false",
        "norm.params.gain=false: none has no such parameter; it takes",
    ),
    ("norm=adanorm norm.params.q=1", "adanorm has no such parameter; it takes k, C"),
    ("norm=my_norm.MyNorm", "weightnorm; a norm of your own is norm=my_norm:MyNorm"),
    ("norm=foo", "unknown norm 'foo': choose from adanorm"),
    ("norm=adanrom", "weightnorm; did you mean adanorm?"),
    ("norm=AdaNorm", "weightnorm; did you mean adanorm?"),
    ("task=RT", "sst5; did you mean rt?"),
    ("task=a.b", "unknown task 'a.b': choose from cifar10"),
    ("scale=big", "unknown scale 'big': choose from mini, open, paper, small, smoke, auto"),
    ("task_norm=x", "unknown task_norm 'x': choose from mnist_"),
    (
        "model.name=ü",
        "cannot be read; write a value with other characters in quotes: \"model.name='ü'\"",
    ),
    ("mödel=3", "'mödel' is not a key"),
    ("nothing", "nothing: cannot be read; write settings as key=value"),
    ("task.name=../../x", "choose with task=NAME"),
    ("+task.name=mnist", "choose with task=NAME"),
    ("norm.name=layernorm", "norm.name=layernorm: choose with norm=NAME"),
    # types and bounds
    (
        "model.dim=1000000000000",
        "model.dim=1000000000000: input should be less than or equal to 65536",
    ),
    ("training.accumulate=99999999999999999999", "training.accumulate=99999999999999999999: input"),
    ("training.lr=1e300", "training.lr=1e"),
    ("seed=true", "seed=true: must be a number"),
    ("training.max_epochs=true", "max_epochs=true: must be a number"),
    ("training.betas=[true,0.9]", "betas=true: must be a number"),
    ("data.source=true", "data.source=True: input should be a valid string"),
    ("training.optimizer=x", "'x': input should be 'adam', 'sgd' or 'muon'"),
    ("~training.lr", "training.lr: is missing"),
    ("norm.path=1e-300", "norm.path=1e-300: input should be a valid string"),
    (
        "norm.params.eps=nan",
        "norm.params.eps=nan: input should be a valid boolean or a finite number or",
    ),
    ("decoding.beam=3", "it is a key of task=de-en, en-de, en-vi"),
    ("norm.placement=[]", "placement []: names no site"),
    ("norm.placement=[[a]]", "norm.placement=[['a']]: input should be a valid string"),
    ("norm.placement=3", "norm.placement=3: input should be a valid string or a valid list"),
    # settings that do not fit together
    ("model.norm_position=x", "norm_position='x': choose pre, post"),
    ("model.norm_position=mix model.layers=1", "1 post layers of 1 leave no pre-norm layer"),
    ("model.dim=15 model.heads=3", "dim 15: must be even"),
    ("model.dim=16 model.heads=3", "dim 16: must be a multiple of heads (3)"),
    ("task=de-en model.dim=16 model.heads=3", "dim 16: must be a multiple of heads (3)"),
    ("task=enwik8 segments.valid.memory=null", "segments.valid.memory: must be set"),
    ("task=enwik8 segments.train.memory=8", "memory 8: must be no shorter than length 16"),
    (
        "task=enwik8 training.max_updates=null training.max_epochs=1",
        "schedule cosine falls to zero at",
    ),
    ("task=enwik8 data.fractions=[0.9,0.1,0]", "three parts above 0 that add up to 1"),
    ("task=enwik8 data.fractions=[0.8,0.1,0.2]", "three parts above 0 that add up to 1"),
    ("task=de-en data.languages=[de,de]", "data.languages: 'de' is named twice"),
    ("task=de-en model.norm_position=hybrid", "choose pre, post, mix, deepnorm"),
    ("task=enwik8 model.norm_position=mix model.post_layers=12", "12 post layers of 2 leave no"),
    ("task=de-en model.qk_norm=head", "not offered here, as fairseq's attention shows no"),
    ("task=gaussian data.source=mnist", "data.source='mnist': input should be 'gaussian'"),
    (
        "task=mnist ~model +model={name:deep_linear,layers:2,dim:4,init:xavier}",
        "reads gaussian, not images",
    ),
    # metrics and kinds
    ("task.metric=acc", "task.metric=acc: the test of classification yields accuracy, loss"),
    ("task.metric=bleu", "task.metric=bleu: the test of classification yields accuracy, loss"),
    ("task.goal=min", "task.goal=min: the goal of accuracy is max"),
    ("+task.selected_by=loss", "task.goal=max: the goal of loss is min"),
    (
        "task=de-en task.selected_by=bleu",
        "task.selected_by=bleu: the validation of translation yields",
    ),
    (
        "task=de-en task.selected_by=null",
        "task.selected_by=null (so bleu): the validation of translation",
    ),
    ("task.kind=clasification", "task.kind=clasification: choose from classification, translation"),
    ("task.kind=parsing task.metric=uas", "task.kind=parsing: data.reader=text is for classificat"),
    ("model.name=vgg2", "model.name=vgg2: choose from mnist_cnn, vgg, deep_linear"),
    ("data.reader=images2", "data.reader=images2: choose from images, colour_images, gaussian"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_a_mistake_says_how_to_mend_it_in_one_line(line: str, message: str) -> None:
    task = [] if line.startswith("task=") else ["task=rt"]
    with pytest.raises(ValueError, match=r"^[^\n]*$") as raised:
        compose_experiment([*task, "scale=smoke", *line.split()])
    assert message in str(raised.value)


def test_the_first_of_several_mistakes_is_reported() -> None:
    messages = set()
    for further in ([], ["training.lr=x", "data.batch_tokens=x"]):
        with pytest.raises(ValueError, match=r"^norm\.params\.eps=nan") as refused:
            compose_experiment(["task=rt", "norm.params.eps=nan", *further])
        messages.add(str(refused.value))
    assert len(messages) == 1


KEYS = ("task", "norm", "seed", "scale", "runs", "norm.name", "norm.path", "task.goal", "task_norm")
SPELLINGS = ("{}=x", "'{}'=x", "+{}=x", "++{}=x", "~{}", "{}='x'", "{}={{a: b}}", " {}=x")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_study_refuses_the_keys_that_its_grid_sets_in_every_spelling(
    key: str, spelling: str
) -> None:
    with pytest.raises(ValueError, match=r"may not change|cannot be read"):
        check_fixed([spelling.format(key)])


def test_a_study_refuses_tricks_that_change_its_grid_and_accepts_other_settings() -> None:
    tricks = (
        "norm@data=layernorm",
        "data@norm=x",
        "hydra.run.dir=x",
        "norm=a,b",
        "seed=range(1,3)",
    )
    for override in (*tricks, "task.metric=x", "+task.selected_by=loss"):
        with pytest.raises(ValueError, match="may not change"):
            check_fixed([override])
    check_fixed(["norm.params.k=0.2", "norm.placement=final", "preset=released", "training.lr=0.1"])


LARGEST = 2**31 - 1  # of a whole number
RANGES: dict[tuple[str, str], tuple[list[str], list[str]]] = {  # refused values, accepted values
    ("rt", "seed"): (["-1", f"{LARGEST + 1}"], ["0", f"{LARGEST}"]),
    ("rt", "threads"): (["0", "1025"], ["1", "1024"]),
    ("rt", "training.lr"): (["0", "1.1e30"], ["1e-9", "1e30"]),
    ("rt", "training.eps"): (["0", "9e-38", "1.1e30"], ["1e-37", "1e-9", "1e30"]),
    ("de-en", "training.warmup_from"): (["-1e-9"], ["0.5"]),
    ("rt", "training.label_smoothing"): (["-0.1", "1"], ["0.1", "0.99"]),
    ("de-en", "data.ratio"): (["0.99"], ["1", "1.5"]),
    ("mnist", "model.kernel_size"): (["0", "10"], ["1", "9"]),
    ("mnist", "model.channels"): (["[8]", "[8,8,8]", "[8,0]"], ["[8,8]"]),
    ("cifar10", "data.std"): (["[0.3,0,0.3]", "[0.3,0.3]"], ["[0.3,0.3,0.3]"]),
    ("cifar10", "model.blocks"): (["[]", "[[]]", "[[8],[]]"], ["[[8]]"]),
    ("ptb data.source=ptb-sample", "data.fold"): (["0", "6"], ["1", "5"]),
}


@pytest.mark.parametrize(("task", "key"), RANGES)
def test_a_number_is_accepted_within_its_range_alone(task: str, key: str) -> None:
    refused, accepted = RANGES[task, key]
    for value in refused:
        with pytest.raises(
            ValueError, match=rf"{key.rpartition('.')[2]}.*(should (be|have)|is missing)"
        ):
            compose_experiment([*f"task={task}".split(), "scale=smoke", f"{key}={value}"])
    for value in accepted:
        part: object = compose_experiment(
            [*f"task={task}".split(), "scale=smoke", f"{key}={value}"]
        )
        for name in key.split("."):
            part = getattr(part, name)
        assert json.loads(json.dumps(part)) == json.loads(value)


def test_a_section_is_frozen_and_refuses_infinity() -> None:
    section: BaseModel = compose_experiment(["task=rt", "scale=smoke"]).training
    with pytest.raises(ValidationError, match="frozen"):
        section.lr = 1.0  # type: ignore[attr-defined]
    with pytest.raises(ValidationError, match="finite"):
        type(section).model_validate({**section.model_dump(), "weight_decay": float("-inf")})


def test_a_dry_run_has_few_updates_and_images_a_whole_vocabulary_and_short_outputs() -> None:
    paper = ["task=mnist", "scale=paper", "training.accumulate=8"]
    run = compose_experiment([*paper, "updates=2"])
    assert (run.training.max_updates, run.training.accumulate) == (2, 2)
    assert run.data.model_dump()["valid_size"] == 256
    with pytest.raises(ValueError, match="updates=3: a dry run has at most 2"):
        compose_experiment([*paper, "updates=3"])
    real, dry = (
        compose_experiment(["task=de-en", "scale=paper", *few]) for few in ([], ["updates=1"])
    )
    data = dry.data.model_dump()
    assert data["dictionary_size"] == real.data.model_dump()["bpe_merges"]
    assert (data["bpe_merges"], data["valid_every"], data["longest"], data["ratio"]) == (
        None,
        None,
        175,
        100,
    )
    assert not any(data[key] for key in ("tokenize", "normalize", "lowercase"))
    assert dry.decoding is not None
    assert (dry.decoding.max_ratio, dry.decoding.max_extra) == (0, 20)


@pytest.mark.parametrize("key", ["norm", "norm.path"])
def test_the_class_of_a_norm_may_have_any_letters(key: str) -> None:
    run = compose_experiment(["task=mnist", "scale=smoke", f"{key}=my_norms:HälfNorm"])
    assert (run.norm.name, run.norm.path) == ("HälfNorm", "my_norms:HälfNorm")
