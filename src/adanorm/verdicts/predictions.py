"""What two papers predict for studies, and what their rules' answers say of it (conf/claims)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.config.yaml_file import read_yaml_file
from adanorm.files import digest_of
from adanorm.studies.rule import Compared
from adanorm.verdicts.comparison import Comparison
from adanorm.verdicts.rule import Decision

FILE = "gradients-and-memory.yaml"
Expected = Literal["better", "worse", "not better", "not worse"]
HELD, AGAINST = "borne out", "contradicted"
# By what is expected: the outcome of each answer that is not open.
OUTCOMES: dict[Expected, dict[str, str]] = {
    "better": {"better": HELD, "worse": AGAINST, "equivalent": "no difference"},
    "worse": {"worse": HELD, "better": AGAINST, "equivalent": "no difference"},
    "not better": {"worse": HELD, "equivalent": HELD, "better": AGAINST},
    "not worse": {"better": HELD, "equivalent": HELD, "worse": AGAINST},
}


class Prediction(Config):
    """What the lead of rows in a family of studies' rules is to be; void where `given` is not better."""

    id: str
    text: str
    source: str
    studies: tuple[str, ...]
    family: str
    rows: Compared
    expected: Expected
    given: Compared | None = None

    def outcomes(self, families: Mapping[str, Sequence[Decision]]) -> Iterator[tuple[Comparison, str, str]]:
        """Yield the comparison of each column that has run, its task, and what it says of the prediction."""
        every = chain.from_iterable(families.values())
        worth = {
            decision.column.task: decision.answer for decision in every if decision.compared == self.given
        }
        for decision in families[self.family]:
            if decision.compared == self.rows and (one := decision.comparison):
                task = decision.column.task
                is_void = worth.get(task, "better") != "better"
                yield one, task, "void" if is_void else OUTCOMES[self.expected].get(one.answer, "open")


def load_predictions() -> tuple[list[Prediction], str]:
    """Return the registered predictions, and eight hexadecimal digits that identify what was written."""
    entries = read_yaml_file(CONF / "claims" / FILE)
    return [Prediction.checked(entry, f"conf/claims/{FILE}: ") for entry in entries], digest_of(entries)
