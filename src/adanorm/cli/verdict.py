"""Compare scores of any origin, from a CSV file with the columns name and score.

With a column seed, runs of one seed are paired, and seeds that only one name has count too; without
it, the names are independent groups. A column example or cluster has one row per test example of a
run. A column task separates data sets. Every two names of a task are compared: the difference with
its interval, its sign, and whether it lies within the margin. p is corrected over all pairs of the
task (Holm). Names that share a letter are not told apart. Commas, semicolons or tabs separate
fields; other columns are ignored.

Assumed: seeds are true blocks, runs are independent, differences are about normal, and there is one
test set. The size and the printed intervals are not corrected for the number of pairs.

With gate=NAME the exit status is its answer beside `against`: 0 better, 3 worse, 4 equivalent, 5
open. It is 2 for a mistake. Without a file, detect= and deviation= say how many seeds to run.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, hanging, output_path, true_or_false
from adanorm.config.errors import NUMBER, check_known
from adanorm.config.paths import PROJECT
from adanorm.config.titles import counted, mean_text
from adanorm.files import writing_to
from adanorm.reporting.league_formats import (
    FileLeague,
    as_json,
    as_svg,
    is_league,
    seeds_to_show,
)
from adanorm.reporting.text import outlook, p_text
from adanorm.stats.comparison import (
    NO_SEED,
    SMALLEST,
    Comparison,
    Score,
    digits_for,
    groups_of,
)
from adanorm.stats.conjunction import League, league
from adanorm.stats.sequential import Looks
from adanorm.verdicts.score_file import (
    LARGEST_SCORE,
    TaskScores,
    column_names,
    read_scores,
)

Keys = Mapping[str, str]  # the values of this command's keys
MOST_NAMES, MOST_SEEDS = 50, 1000
STATUS = {"better": 0, "worse": 3, "equivalent": 4, "open": 5}
OF_A_FILE = ("against", "task", "paired", "columns", "gate", "format", "figure")
PAIRED = {"": None, "true": True, "false": False}
LEAGUE = PROJECT / "results" / "tables" / "league.csv"
ON_RECORD = (
    "README's answers on these runs may differ: they follow each task's plan, count the noise of"
    " test examples, and are not corrected for pairs."
)

USAGE = Usage(
    name="[FILE]",
    keys={
        "margin": Key("required: the smallest difference that matters, in the unit of the scores"),
        "better": Key("higher or lower", default="higher"),
        "against": Key(
            "the name that the others are compared with (default: the first of the file)"
        ),
        "task": Key("one task of the file (default: all)"),
        "paired": Key(
            "true: read shared seeds alone; false: seeds are mere labels (default: both)"
        ),
        "plan": Key(
            "looks of your own, such as 6,10,16 seeds; or a plan of this suite: first, fresh, small"
            " (default: read all scores once)"
        ),
        "spending": Key("how late a plan of your own spends its error; 1: evenly", default="1.5"),
        "detect": Key("a difference: how many seeds show it, and how many equivalence, at 80 %"),
        "deviation": Key(
            "for detect=: the standard deviation of scores of independent runs (default: each"
            " pair's own noise)"
        ),
        "columns": Key("the file's columns, as in name:config.norm,seed:config.seed,score:acc"),
        "gate": Key("a name whose answer beside `against` is the exit status"),
        "format": Key("text or json", default="text"),
        "figure": Key("a file of the kind .svg for the league, its intervals and the margin"),
    },
    examples=(
        "scores.csv margin=0.5",
        "losses.csv margin=0.01 better=lower gate=mine format=json",
        "detect=0.5 deviation=0.8",
    ),
)


def main(arguments: Arguments) -> int:
    """Print the answers and the league of every task of a file, and return the exit status."""
    keys = arguments.keys
    has_file = bool(arguments.names)
    _check(keys, has_file=has_file)
    looks = _looks(keys, has_file=has_file)
    if not has_file:
        print("\n".join(_seeds_line("seeds: ", None, keys, looks)))
        return 0
    figure = None
    if keys["figure"]:
        figure = output_path(keys["figure"], "figure", is_replaced=is_league)
    (file,) = arguments.names
    leagues = _leagues(file, keys, looks)
    status = None
    if keys["gate"]:
        pair = leagues[0].with_base(keys["gate"])
        status = STATUS[pair.answer if pair else "open"]
    if keys["format"] == "json":
        answers = as_json(leagues, keys, looks)
        if status is not None:
            answers["gate"] = {"name": keys["gate"], "status": status}
        print(json.dumps(answers, indent=1, allow_nan=False))
    else:
        texts = [_lines(file, entry, keys, looks) for entry in leagues]
        for lines in texts:
            print("\n".join(lines))
        if Path(file).resolve() == LEAGUE.resolve():
            print("\n".join(hanging("", ON_RECORD)))
    if figure:
        with writing_to(figure) as target:
            target.write(as_svg(leagues).encode())
    return status or 0


def _check(keys: Keys, *, has_file: bool) -> None:
    """Raise ValueError for a key without its value, or with one that it cannot have."""
    for name in ("margin", "detect", "deviation", "spending"):
        text = keys[name]
        is_number = NUMBER.fullmatch(text) and SMALLEST <= float(text) <= LARGEST_SCORE
        if text and not is_number:
            raise ValueError(
                f"{name}={text}: must be a number above 0, from {SMALLEST:g} to {LARGEST_SCORE:g}"
            )
    for name, choices in (("better", ("higher", "lower")), ("format", ("text", "json"))):
        check_known(name, [keys[name]], choices)
    if keys["paired"]:
        true_or_false("paired", keys["paired"])
    if keys["deviation"] and not keys["detect"]:
        raise ValueError("deviation=: is for detect=, the difference to find")
    if has_file and not keys["margin"]:
        raise ValueError("margin=: is required, the smallest difference that matters")
    if not has_file and not keys["deviation"]:
        raise ValueError("verdict needs a FILE of scores, or detect= and deviation=")
    for name in OF_A_FILE:
        is_given = keys[name] != USAGE.keys[name].default
        if is_given and not has_file:
            raise ValueError(f"{name}={keys[name]}: is for a FILE of scores, and none is named")
    if keys["figure"] and not keys["figure"].endswith(".svg"):
        raise ValueError(f"figure={keys['figure']}: must end with .svg")


def _looks(keys: Keys, *, has_file: bool) -> Looks | None:
    """Return the looks that plan= lists; None for a plan's name or no plan.

    Raises ValueError for looks that do not rise, and for keys that would say nothing.
    """
    plan = keys["plan"]
    if not re.match(r"\d", plan, re.ASCII):
        if keys["spending"] != USAGE.keys["spending"].default:
            raise ValueError("spending=: is for looks of your own, as in plan=6,10,16")
        if plan and not has_file:
            raise ValueError(f"plan={plan}: without a FILE, give looks, as in plan=6,10,16")
        return None
    numbers = plan.split(",")
    are_numbers = all(text.isascii() and text.isdecimal() and len(text) < 5 for text in numbers)
    after = tuple(map(int, numbers)) if are_numbers else (0,)
    if after[0] < 2 or after[-1] > MOST_SEEDS or [*after] != sorted({*after}):
        raise ValueError(f"plan={plan}: looks rise from 2 seeds or more to {MOST_SEEDS} at most")
    return Looks(after, float(keys["spending"]))


def _leagues(file: str, keys: Keys, looks: Looks | None) -> list[FileLeague]:
    """Return the league of each task; raises ValueError, with the row, where there is none."""
    by_task = read_scores(Path(file), column_names(keys["columns"]))
    task = keys["task"]
    if task and "" in by_task:
        raise ValueError(f"task={task}: {file} has no column task")
    check_known("task", filter(None, [task]), by_task)
    chosen = {name: table for name, table in by_task.items() if task in ("", name)}
    if keys["gate"] and len(chosen) > 1:
        raise ValueError(f"gate={keys['gate']}: {file} has {len(chosen)} tasks; write task=")
    return [_league(file, name, table, keys, looks) for name, table in chosen.items()]


def _league(file: str, task: str, table: TaskScores, keys: Keys, looks: Looks | None) -> FileLeague:
    scores = table.scores
    if not 2 <= len(scores) <= MOST_NAMES:
        last_name = max(min(rows.values()) for rows in table.rows.values())
        raise ValueError(
            f"{file}, row {last_name}, column name:"
            f" {counted(len(scores), 'name')}, and 2 to {MOST_NAMES} can be compared"
        )
    base, gate = keys["against"] or next(iter(scores)), keys["gate"]
    check_known(f"name of {task or file}", filter(None, [base, gate]), scores)
    if gate == base:
        raise ValueError(f"gate={gate}: the others are compared with it; write against=")
    sign = 1 if keys["better"] == "higher" else -1
    signed = {}
    for name, by_seed in scores.items():
        signed[name] = {seed: sign * score for seed, score in by_seed.items()}
    margin = float(keys["margin"])
    is_of_suite = bool(keys["plan"]) and looks is None
    if is_of_suite:
        ranked = _league_by_name(file, table, signed, keys)
    else:
        ranked = league(signed, margin, paired=PAIRED[keys["paired"]], looks=looks)
    reasons = {}
    for pair, comparison in ranked.pairs.items():
        if comparison is None:
            is_paired = keys["paired"] == "true" or is_of_suite
            reasons[pair] = _reason(ranked, *pair, is_paired=is_paired)
    return FileLeague(task, base, margin, sign, ranked, reasons)


def _league_by_name(
    file: str, table: TaskScores, signed: Mapping[str, Mapping[int, Score]], keys: Keys
) -> League:
    """Return the league by a plan of the suite; ValueError for a seed that it does not read."""
    from adanorm.verdicts.task_league import league_by_plan, plan_for_scores, plan_names

    check_known("plan", [keys["plan"]], plan_names(), ", or looks of your own, as in 6,10,16")
    groups = dict(zip(signed, groups_of([*signed.values()], None), strict=True))
    if keys["paired"] == "false" or any(group.scores.ndim > 1 for group in groups.values()):
        raise ValueError(
            f"plan={keys['plan']}:"
            " pairs seeds, and reads one score of each; give looks, as in plan=10,20,40"
        )
    plan = plan_for_scores(keys["plan"], float(keys["margin"]))
    for name, by_seed in signed.items():
        for seed in by_seed:
            if not plan.first <= seed <= plan.last:
                number = seed if seed < NO_SEED else "none"
                reads = f"plan={plan.name} reads seeds {plan.first} to {plan.last}"
                row = table.rows[name][seed]
                raise ValueError(f"{file}, row {row}, column seed: {number}: {reads}")
    means = {name: group.by_seed for name, group in groups.items()}
    return league_by_plan(means, plan)


def _reason(ranked: League, first: str, second: str, *, is_paired: bool) -> str:
    """Return why two names are not compared."""
    ours, theirs = (ranked.scores[name].keys() for name in (first, second))
    shared = len(ours & theirs)
    fewest = ranked.looks.after[0] if ranked.looks else 2
    if is_paired and shared < fewest:
        return f"they share {counted(shared, 'seed')}, and need {fewest}"
    for name, seeds in ((first, ours), (second, theirs)):
        if len(seeds) < fewest:
            return f"{name} has {counted(len(seeds), 'score')}, and needs {fewest}"
    if shared > 1:
        return "they differ by the same with every seed, so there is no noise"
    return "no score of either differs from the others of its name, so there is no noise"


def _lines(file: str, entry: FileLeague, keys: Keys, looks: Looks | None) -> list[str]:
    """Return the lines on a task: the league, each name beside the base, and what is left out."""
    ranked = entry.league
    corrected = f"p corrected for {counted(len(ranked.pairs), 'pair')} (Holm)"
    about = f"{keys['better']} is better, margin {keys['margin']}, {corrected}"
    if looks:
        about += f", looks after {', '.join(map(str, looks.after))} scores of each name"
        about += "; means, deviations, counts and P are of all scores in the file"
    lines = hanging("", f"{entry.task or file}: {about}")
    lines += _table(entry)
    for name in ranked.scores:
        if name != entry.base:
            lines += _answer(entry, name, keys)
    lines += hanging("", outlook(ranked))
    for (first, second), reason in entry.left_out.items():
        lines += hanging("", f"Left out: {first} and {second}: {reason}.")
    return lines


def _table(entry: FileLeague) -> list[str]:
    """Return one line per name, the best first: its scores, how many they are, and groups."""
    digits = digits_for(entry.margin)
    rows = [("name", "mean ± deviation", "scores", "group")]
    for name, by_seed in entry.league.scores.items():
        scores = [entry.sign * score for score in by_seed.values()]
        letters = entry.league.letters[name]
        rows.append((name, mean_text(scores, digits), str(len(scores)), letters))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines += hanging("  ", "  ".join(cells).rstrip())
    return lines


def _answer(entry: FileLeague, name: str, keys: Keys) -> list[str]:
    """Return lines on a name beside the base: sign, size and answer, each with what decides it."""
    pair = entry.with_base(name)
    if pair is None:
        return []
    ranked, digits = entry.league, digits_for(entry.margin)
    better = ">" if entry.sign > 0 else "<"
    chance = f"P({name} {better} {entry.base}) = {ranked.chance(name, entry.base):.2f}"
    luck = ranked.luck(name, entry.base)
    if luck:
        chance += f" (by chance 1 in {luck:,})"
    sign = f"{pair.sign}, {pair.gap:+z.{digits}f}, 95 % {pair.interval.text(digits)}"
    ps = f"p {p_text(pair.p)}, corrected {p_text(pair.family_p)}"
    lines = [
        *hanging("", f"{name} over {entry.base}: {pair.method}, {chance}"),
        *hanging("  sign: ", f"{sign}, {ps}"),
        *hanging("  size: ", f"{pair.size}, 90 % {pair.margin_interval.text(digits)}"),
        f"  answer: {pair.answer}",
    ]
    if keys["detect"]:
        lines += _seeds_line("  seeds: ", pair, keys, ranked.looks)
    return lines


def _seeds_line(start: str, pair: Comparison | None, keys: Keys, looks: Looks | None) -> list[str]:
    """Return how many seeds of each name show the difference of detect=, and equivalence."""
    needed = seeds_to_show(pair, keys, looks)
    texts = []
    for number in (needed["difference"], needed["equivalence"]):
        texts.append(f"{number:,} of each" if number else "more than 2,000 of each")
    within = keys["margin"] or keys["detect"]
    text = (
        f"{texts[0]} show a difference of {keys['detect']}, {texts[1]} equivalence within {within}"
    )
    return hanging(start, f"{text}, with probability 80 %")
