"""Every pair of norms on a task has the same answer on all pages that print it."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.reporting.tables.claims import CLAIM_COLUMNS
from adanorm.studies.study import load_studies
from adanorm.verdicts.preregistration import preregistration
from tests.verdicts import not_none

Pair: TypeAlias = tuple[str, str, str, str]  # task, scale, norm, other
MIRRORED = {"better": "worse", "worse": "better"}
WORDS = "better|worse|equivalent|open"
FIGURES = sorted(path.name for path in (PROJECT / "results" / "figures").glob("evidence-*.svg"))
# By data set, the scale of the runs that the plan which decides reads.
SCALES = {
    title(task): preregistration().plans_of(task)[-1].scale for task in preregistration().margins
}


def text(path: str) -> str:
    return (PROJECT / path).read_text("utf-8")


def of_the_guide() -> Iterator[tuple[Pair, str]]:
    facts = r"<!-- facts: (\S+) -->\n(.*?)<!-- /facts -->"
    for norm, lines in re.findall(facts, text("docs/norms.md"), re.S):
        line = rf"^- ([^,]+), `(\w+)`: .*; over LayerNorm .*: ({WORDS})"
        for task, scale, word in re.findall(line, lines, re.MULTILINE):
            yield (task, scale, title(norm), "LayerNorm"), word


SIZES = {"The paper's size": "paper", "Smaller data": "small"}


def of_the_readme() -> Iterator[tuple[Pair, str]]:
    scale = ""
    for line in text("README.md").partition("<!-- answers:")[2].splitlines():
        if group := re.match(r"\| \*\*(.*)\*\* \|", line):
            scale = SIZES[group[1]]
        row = rf"\| \[(.*?)\]\(results/tables/answers.md.*\| ({WORDS})\b[^|]*\|$"
        if match := re.match(row, line):
            yield (match[1], scale, "AdaNorm", "LayerNorm"), match[2]


def of_the_answers() -> Iterator[tuple[Pair, str]]:
    """The page of answers above its history, and the traces below it."""
    page = text("results/tables/answers.md")
    for task, word in re.findall(rf"^\| ([^|]+) \|.*\*\*({WORDS})\*\*", page, re.MULTILINE):
        yield (task, SCALES[task], "AdaNorm", "LayerNorm"), word
    trace = rf"^(\S+) \([^)]*\): AdaNorm over LayerNorm, .*?^answer   ({WORDS})$"
    for task, word in re.findall(trace, page, re.MULTILINE | re.DOTALL):
        yield (task, SCALES[task], "AdaNorm", "LayerNorm"), word


def of_the_league() -> Iterator[tuple[Pair, str]]:
    task = scale = ""
    for line in text("results/tables/league.md").splitlines():
        if heading := re.match(r"## (.*?) \(.*\), scale (\w+), plan", line):
            task, scale = heading.groups()
        row = rf"\| ([^|]+) \| .* \([^|]*\) \| ({WORDS}) \|$"
        if match := re.match(row, line):
            yield (task, scale, match[1], "LayerNorm"), match[2]


def of_the_figures() -> Iterator[tuple[Pair, str]]:
    """The titles of the figures of claims: the answer on each data set."""
    for norms in re.findall(r"^evidence-\w+", "\n".join(FIGURES), re.MULTILINE):
        drawn = html.unescape(text(f"results/figures/{norms}.svg"))
        title_lines = re.findall(r"font-weight: 700[^>]*>([^<]*)<", drawn)
        (message,) = re.findall(r"\S.* beside [^:]*: .*", " ".join(title_lines)) or [""]
        parts = not_none(re.match(r"(.*?) beside (.*?): (.*)", message)).groups()
        better, worse, answers = parts
        for part in answers.split("; "):
            word, _, tasks = part.partition(" on ")
            for task in re.split(r", | and ", tasks):
                yield (task, SCALES[task], better, worse), word


def of_the_claims() -> Iterator[tuple[Pair, str]]:
    scale = ""
    for line in text("results/tables/claims.md").splitlines():
        if heading := re.search(r"\. Scale (\w+): ", line):
            scale = heading[1]
        fields = [field.strip() for field in line.strip("|").split("|")]
        if len(fields) < 12 or " loss" in fields[1] or "(" in fields[1]:
            continue  # of a loss, or of other settings than the scale's own
        if word := re.match(WORDS, fields[CLAIM_COLUMNS.index("answer")]):
            assert scale in ("small", "paper")
            yield (fields[0], SCALES[fields[0]], fields[2], fields[3]), word[0]


def of_rules() -> Iterator[tuple[Pair, str]]:
    """Studies' own rules, of those studies whose rows the guide shows."""
    family = re.compile(r"^By the rule, .*comparisons\)\. (.*)$", re.MULTILINE)
    answer = re.compile(rf"([\w-]+) [-+\d.]+ \[[^]]*\] p (?:< )?[\d.]+ \*({WORDS})\*")
    for name, study in load_studies().items():
        if study.rule is None or "norm-guide" not in study.roles:
            continue
        for comparisons in family.findall(text(f"results/tables/{name}.md")):
            for norm, other, answers in re.findall(
                r"(\S[^:;]*) over ([^:;]+): ([^;]+)", comparisons
            ):
                for task, word in answer.findall(answers):
                    yield (task, study.scale, norm, other), word


def test_every_pair_of_norms_that_two_pages_print_has_one_answer() -> None:
    printed: dict[Pair, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    pages = (
        of_the_guide,
        of_the_readme,
        of_the_answers,
        of_the_claims,
        of_the_league,
        of_the_figures,
        of_rules,
    )
    for page in pages:
        for (task, scale, norm, other), word in page():
            printed[task, scale, norm, other][word].add(page.__name__)
            printed[task, scale, other, norm][MIRRORED.get(word, word)].add(page.__name__)
    twice = {pair: words for pair, words in printed.items() if len(set.union(*words.values())) > 1}
    assert {pair: dict(words) for pair, words in twice.items() if len(words) > 1} == {}
    names_seen = {name for words in twice.values() for names in words.values() for name in names}
    assert names_seen == {page.__name__ for page in pages}
    assert len(twice) > 10
