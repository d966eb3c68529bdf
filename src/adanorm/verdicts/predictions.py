"""What two papers predict for studies, and what their rules' answers say of it (conf/claims)."""

from collections.abc import Mapping, Sequence
from typing import Literal

from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.config.yaml_file import read_yaml_file
from adanorm.files import digest_of
from adanorm.studies.rule import Compared
from adanorm.verdicts.rule import Decision

FILE = "gradients-and-memory.yaml"
Expected = Literal["better", "worse", "not better", "not worse"]
# By what is expected: the answers that bear it out, and those that contradict it.
ANSWERS: dict[Expected, tuple[set[str], set[str]]] = {
    "better": ({"better"}, {"worse"}),
    "worse": ({"worse"}, {"better"}),
    "not better": ({"worse", "equivalent"}, {"better"}),
    "not worse": ({"better", "equivalent"}, {"worse"}),
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

    def outcomes(self, families: Mapping[str, Sequence[Decision]]) -> list[tuple[Decision, str]]:
        """Return the decision of each column of a study, and what it says of the prediction."""
        every = [decision for family in families.values() for decision in family]
        worth = {d.column.task: d.answer for d in every if d.compared == self.given}
        own = [decision for decision in families[self.family] if decision.compared == self.rows]
        return [(one, self._outcome(one.answer, worth.get(one.column.task, "better"))) for one in own]

    def _outcome(self, answer: str | None, given: str | None) -> str:
        if answer is None or given is None:
            return "not run"
        if given != "better":
            return "void"
        borne_out, contradicted = ANSWERS[self.expected]
        if answer in borne_out:
            return "borne out"
        if answer in contradicted:
            return "contradicted"
        return "no difference" if answer == "equivalent" else "open"


def load_predictions() -> tuple[list[Prediction], str]:
    """Return the registered predictions, and eight hexadecimal digits that identify what was written."""
    entries = read_yaml_file(CONF / "claims" / FILE)
    return [Prediction.checked(entry, f"conf/claims/{FILE}: ") for entry in entries], digest_of(entries)
