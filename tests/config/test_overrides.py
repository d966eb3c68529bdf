"""Overrides in any spelling: paths of any characters, parameters, and what a grid fixes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adanorm.config.compose import compose_experiment, compose_values
from adanorm.config.overrides import assigned, check_fixed, prepare_overrides

CHARACTERS = st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" \\'\"${}=,()")


@given(st.text(CHARACTERS, min_size=1, max_size=12))
@example("/x/cl one ü")
@example("it's, = (a) \\")
@example("\\'")
@example("${seed}")
@example("a\\${seed}'b")
@example("null")
@example("$x{y}")
@settings(max_examples=60, deadline=None)
def test_a_path_of_any_characters_is_read_as_it_is(text: str) -> None:
    override = assigned("data.cache", text)
    assert compose_values([override])["data"]["cache"] == text


@pytest.mark.parametrize(
    "path",
    ["/x/ü", "/x/a b", "/x/a,b", "/x/a=b", "/x/it's", "/x/(1)", "/x/a\tb", "2024", "1e5", "true", "~x"],
)
def test_paths_need_no_quotes(path: str) -> None:
    made = compose_experiment([f"runs={path}", f"++data.mirror={path}"])
    assert (made.runs, made.data.mirror) == (path, path)


def test_a_path_in_quotes_and_null_stay_what_they_are() -> None:
    assert compose_experiment(["runs='/x/a b'"]).runs == "/x/a b"
    assert compose_experiment(["runs=null"]).runs is None


def test_in_a_sweep_a_comma_stands_between_paths() -> None:
    assert prepare_overrides(["-m", "data.train=a ü,b"]) == ["-m", "data.train='a ü','b'"]


BY_PATH = ["norm=none", "task_norm=[]", "task_norm_scale=[]", "norm.path=my.norms:My"]


@pytest.mark.parametrize(
    ("given", "prepared"),
    [
        (["norm=my.norms:My"], BY_PATH),
        (["norm.path=my.norms:My"], BY_PATH),
        (["norm=none", "norm.path=my.norms:My"], BY_PATH),
        (["norm.path=my.norms:My", "norm=layernorm"], BY_PATH),
        (["norm=my.norms:My", "norm.params.k=1"], [*BY_PATH, "++norm.params.k=1"]),
        (["norm.path=my.norms:My", "norm.params.k=1"], [*BY_PATH, "++norm.params.k=1"]),
    ],
)
def test_a_norm_of_ones_own_takes_the_place_of_any_other(given: list[str], prepared: list[str]) -> None:
    assert prepare_overrides(given) == prepared
    assert prepare_overrides(prepared) == prepared


def test_no_path_is_no_norm_of_ones_own() -> None:
    plain = compose_experiment(["norm=adanorm", "norm.params.k=0.2"])
    assert compose_experiment(["norm=adanorm", "norm.params.k=0.2", "norm.path=null"]) == plain


@pytest.mark.parametrize("norm", ["layernorm", "adanorm", "rmsnorm", "groupnorm"])
def test_every_parameter_of_a_norm_can_be_set_without_a_plus(norm: str) -> None:
    from adanorm.norms.registry import parameters_of

    for name in parameters_of(norm):
        made = compose_experiment([f"norm={norm}", f"norm.params.{name}=0.5"])
        assert made.norm.params[name] == 0.5
        plus = compose_experiment([f"norm={norm}", f"++norm.params.{name}=0.5"])
        assert plus.digest() == made.digest()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["norm=none", "norm.params.gain=false"],
            "norm.params.gain=false: none has no such parameter; it takes",
        ),
        (["norm=adanorm", "norm.params.q=1"], "adanorm has no such parameter; it takes k, C"),
        (["norm=my_norm.MyNorm"], "a norm of your own is norm=my_norm:MyNorm; choose from adanorm"),
        (["norm=foo"], "unknown norm 'foo': choose from adanorm"),
        (["task=a.b"], "unknown task 'a.b': choose from cifar10"),
        (["scale=big"], "unknown scale 'big': choose from mini, paper, small, smoke, auto"),
        (["task_norm=x"], "unknown task_norm 'x': choose from mnist_"),
        (
            ["model.name=ü"],
            "cannot be read; a value of other characters stands in quotes: \"model.name='ü'\"",
        ),
        (["model dim=3"], "'model dim' is no key"),
        (["nothing"], "nothing: cannot be read; write settings as key=value"),
    ],
)
def test_a_mistake_says_how_to_mend_it_in_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as raised:
        compose_experiment(overrides)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        "task",
        "norm",
        "seed",
        "scale",
        "runs",
        "norm.name",
        "norm.path",
        "task.name",
        "task.metric",
        "task.goal",
    ],
)
@pytest.mark.parametrize(
    "spelling", ["{}=x", "'{}'=x", "+{}=x", "++{}=x", "~{}", "{}='x'", "{}={{a: b}}", " {}=x"]
)
def test_what_tells_cells_apart_can_be_changed_in_no_spelling(key: str, spelling: str) -> None:
    with pytest.raises(ValueError, match=r"may not change|cannot be read"):
        check_fixed([spelling.format(key)])


def test_what_tells_cells_apart_can_be_changed_by_no_trick() -> None:
    tricks = (
        "norm@data=layernorm",
        "data@norm=x",
        "hydra.run.dir=x",
        "norm=a,b",
        "seed=range(1,3)",
        "task_norm=x",
        "task_norm_scale=x",
        "+task.selected_by=loss",
    )
    for override in tricks:
        with pytest.raises(ValueError, match="may not change"):
            check_fixed([override])


def test_other_settings_of_a_grids_runs_are_free() -> None:
    check_fixed(
        [
            "norm.params.k=0.2",
            "norm.placement=final",
            "preset=released",
            "training.lr=0.1",
            "data.batch_size=3",
        ]
    )
