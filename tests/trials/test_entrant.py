"""A norm is its code and parameters, whatever their names; its seeds follow from them."""

from typing import Any

import pytest

from adanorm.norms import NormChoice
from adanorm.trials.entrant import Entrant, entrant_of
from adanorm.trials.rules import load_rules
from adanorm.trials.twin import twin_of
from tests.trials.records import BEDS

CODE = """
import torch
from torch import nn

EPS = 1e-5

class HalfNorm(nn.Module):
    def __init__(self, dim, *, power=0.5):
        super(HalfNorm, self).__init__()
        self.power = power

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + EPS) ** self.power
"""


def entrant(code: str, path: str = "mine:HalfNorm", more: Any = None, **params: Any) -> Entrant:
    norm = {"name": path.partition(":")[2], "path": path, "params": params}
    files = {path.partition(":")[0].replace(".", "/") + ".py": code, **(more or {})}
    contents = {file: text.encode() for file, text in files.items()}
    return entrant_of(norm, contents, {}, load_rules(str(BEDS)))


SAME = {
    "another file": (CODE, "package.theirs:HalfNorm"),
    "another class name": (CODE.replace("HalfNorm", "Better"), "mine:Better"),
    "an alias": (f"{CODE}\nBetter = HalfNorm\n", "mine:Better"),
    "an alias beside it": (f"{CODE}\nBetter = HalfNorm\n", "mine:HalfNorm"),
    "an alias of an alias": (f"{CODE}\nGood = HalfNorm\nBetter = Good\n", "mine:Better"),
    "an empty subclass": (
        f"{CODE}\nclass Better(HalfNorm):\n    'The best.'\n", "mine:Better"
    ),
    "an import": ("from base import HalfNorm as Better", "mine:Better", {"base.py": CODE}),
    "what runs as a script": (f"{CODE}\nif __name__ == '__main__':\n    x = 1\n", "mine:HalfNorm"),
    "a relative import": (
        "from .base import HalfNorm", "package.mine:HalfNorm",
        {"package/base.py": CODE, "package/__init__.py": "from .mine import HalfNorm"},
    ),
    "comments and docstrings": (CODE.replace("power\n", "power  # x\n").replace(
        "(nn.Module):", '(nn.Module):\n    """Best of all."""\n'), "mine:HalfNorm"),
}  # fmt: skip
OTHER = {
    "another eps": (CODE.replace("1e-5", "1e-6"), {}),
    "another default": (CODE.replace("=0.5", "=0.6"), {}),
    "a change after the class": (f"{CODE}\nHalfNorm.forward = nn.Identity.forward\n", {}),
    "another value of a name": (CODE.replace("EPS = 1e-5", "A, B = 1e-5, 1\nEPS = B"), {}),
    "another parameter": (CODE, {"power": 0.7}),
    "a subclass that changes it": (
        CODE.replace("HalfNorm", "Base") + "\nclass HalfNorm(Base):\n    depends_on_batch = True\n",
        {},
    ),
}


@pytest.mark.parametrize("names", SAME.values(), ids=list(SAME))
def test_two_names_of_one_code_are_one_norm(names: Any) -> None:
    assert entrant(*names).digest == entrant(CODE).digest


@pytest.mark.parametrize(("code", "params"), OTHER.values(), ids=list(OTHER))
def test_other_code_and_other_parameters_are_another_norm(code: str, params: Any) -> None:
    changed = entrant(code, **params)
    assert changed.digest != entrant(CODE).digest
    assert not {*changed.seeds(16)} & {*entrant(CODE).seeds(16)}


READING = {
    "its name": "float('0.' + type(self).__name__[1:])",
    "its docstring": "len(self.__doc__)",
}


@pytest.mark.parametrize("power", READING.values(), ids=list(READING))
def test_code_that_may_read_its_names_keeps_them(power: str) -> None:
    digests = set()
    for name, text in (("N25", "One."), ("N75", "One."), ("N75", "Other.")):
        code = CODE.replace("self.power = power", f"self.power = {power}")
        code = code.replace("(nn.Module):", f'(nn.Module):\n    """{text}"""')
        digests.add(entrant(code.replace("HalfNorm", name), f"mine:{name}").digest)
    assert len(digests) == 3


def test_a_name_that_is_bound_twice_is_no_alias() -> None:
    code = f"B = None\nA = B\n{CODE.replace('HalfNorm', 'A')}\n{CODE.replace('HalfNorm', 'B')}"
    assert entrant(code, "mine:A").digest != entrant(code, "mine:B").digest


def test_the_digest_is_the_same_under_every_version_of_python() -> None:
    """Its value is that of Python 3.11.7, 3.12.1 and 3.13.0, whose `ast.dump` differ."""
    assert entrant(CODE).digest == "686f3b11"


def test_a_parameter_that_is_set_to_its_default_makes_no_other_norm() -> None:
    assert entrant(CODE, power=0.5) == entrant(CODE)
    without = CODE.replace("power=0.5", "power")
    assert entrant(without, power=0.5) != entrant(without)


def test_code_that_is_nested_too_deeply_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"nested too deeply|too many|recursion"):
        entrant("x = " + " + ".join("1" * 5000))


def twin(body: str) -> str | None:
    namespace: dict[str, Any] = {}
    exec(f"import torch\nfrom torch import nn\n{body}", namespace)
    return twin_of(NormChoice("Mine", outside=namespace["Mine"]))


RMS = """
class Mine(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
    def forward(self, x):
        return self.gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)
"""
TWINS = {
    "class Mine(nn.LayerNorm): pass": "layernorm",
    "Mine = nn.LayerNorm": "layernorm",
    RMS: "rmsnorm",
    RMS.replace("1e-5", "1e-6"): None,
    RMS.replace("x * x", "(x * x).detach()"): None,
}


@pytest.mark.parametrize(("body", "name"), TWINS.items())
def test_a_norm_that_computes_what_one_of_the_suite_does_is_known(
    body: str, name: str | None
) -> None:
    assert twin(body) == name


def test_fresh_seeds_rise_and_more_of_them_begin_with_the_same() -> None:
    norm = entrant(CODE)
    seeds = norm.seeds(16)
    assert seeds == sorted(seeds)
    assert norm.seeds(6) == seeds[:6]
    assert seeds[0] >= 1_000_000
    assert seeds[-1] < 2**31


def test_a_class_names_the_parameter_that_it_tries_which_is_no_part_of_the_norm() -> None:
    code = CODE.replace(
        "    def __init__", '    tries = {"power": (0.25, 0.5)}\n\n    def __init__'
    )
    named = entrant(code, power=0.25)
    assert named.parameter == ("power", (0.25, 0.5))
    imported = entrant("from base import EPS, HalfNorm", more={"base.py": code})
    assert imported.parameter == named.parameter
    assert named.digest == entrant(code, power=0.5).digest
    rules = load_rules(str(BEDS))
    tries = rules.tries(rules.beds["rt"], named.parameter)
    assert len(tries) == len(rules.tries(rules.beds["rt"], None)) == len(rules.rates)
    with pytest.raises(ValueError, match="name one parameter and two values"):
        entrant(code.replace("(0.25, 0.5)", "0.25"))
    with pytest.raises(ValueError, match="name one parameter and two values"):
        entrant(code.replace("(0.25, 0.5)", "(0.5, 0.5)"))


def test_a_norm_of_the_suite_is_the_same_on_beds_with_settings_of_its_own() -> None:
    rules = load_rules(str(BEDS))
    digests = set()
    for task in ("rt", "mnist"):
        bed = rules.beds[task]
        norm = bed.experiment("groupnorm").norm
        digests.add(entrant_of(norm.model_dump(), {}, norm.params, rules).digest)
    assert len(digests) == 1
