"""The answer to the main question on each data set, and every run behind it."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import stdev

from adanorm.config.titles import counted, listed, task_metric, title
from adanorm.records.folder import location
from adanorm.records.result import Result
from adanorm.reporting.text import how_to_read, p_text, page, table_block
from adanorm.stats.comparison import Comparison
from adanorm.stats.conjunction import pooled
from adanorm.stats.sequential import Levels
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.claims import Answers, ClaimResult, TaskAnswer, TaskResult
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.pair import published_gap
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.quantities import scored
from adanorm.verdicts.sentences import count, data_sets

ANSWER_COLUMNS = ("Data set", "Paper", "Our gain (95 %)", "Seeds", "Answer")
FULL_COLUMNS = (
    "data set", "score", "plan", "seeds", "gain (95 %)", "90 % interval", "margin", "answer",
    "p", "corrected p", "the paper's gain",
)  # fmt: skip
EARLIER_COLUMNS = (
    "plan", "data set", "score", "compared", "seeds", "lead (95 %)", "90 % interval", "margin",
    "answer then",
)  # fmt: skip
SIZES = {
    "paper": "the paper's size",
    "small": "smaller model and data",
}
GROUPS = {"paper": "The paper's size", "small": "Smaller data"}  # in a narrow table
TOP3 = "the mean of the three evaluations best by validation"
SCORES = {
    "top3": TOP3,
    "test": "the test score at the evaluation best by validation",
    "chrf": "chrF at the evaluation best by validation",
}
OF_AVERAGED_WEIGHTS = "the test score of weights averaged over the best evaluations"
PAGE = "results/tables/answers.md"


def question() -> Claim:
    """Return the claim that AdaNorm beats LayerNorm."""
    return next(claim for claim in preregistration().claims if claim.id == "adanorm")


def headline(answers: Answers) -> str:
    """Return the data sets with each answer, and those on which the paper's gain is excluded."""
    claim = question()
    needed = count(claim.needed("paper"))
    claimed = count(len(claim.tasks_at("paper")))
    sentences = [decided(answers), f"The paper reports it on {needed} of {claimed}."]
    excluded = excluded_on(answers)
    if excluded:
        sentences.append(f"The paper's gain is excluded on {excluded}.")
    return " ".join(sentences)


def excluded_on(answers: Answers) -> str:
    """Return the data sets on which a true gain of the paper's size is excluded; perhaps ''."""
    excluded = []
    for answer in answers:
        if answer.comparison and answer.comparison.papers_gap == "excluded":
            excluded.append(title(answer.task))
    return listed(excluded)


def decided(answers: Answers) -> str:
    """Return sentences on the data sets with each answer, and on those without one."""
    by_answer: dict[str, list[str]] = {}
    missing = []
    not_compared = []
    for answer in answers:
        name = title(answer.task)
        if answer.answer in ("better", "worse") and not answer.is_significant:
            name += f" (not if corrected for {data_sets(len(answers))})"
        if answer.comparison is not None:
            by_answer.setdefault(answer.answer, []).append(name)
        elif answer.setback:
            not_compared.append(f"{name} ({answer.setback})")
        else:
            missing.append(name)
    better = by_answer.get("better", [])
    where = f" ({listed(better)})" if better else ""
    begins = f"AdaNorm is better than LayerNorm on {count(len(better))} of"
    parts = [f"{begins} {data_sets(len(answers))}{where}"]
    for word in ("worse", "equivalent", "open"):
        if word in by_answer:
            parts.append(f"{word} on {listed(by_answer[word])}")
    sentences = [f"{'; '.join(parts)}."]
    if not_compared:
        sentences.append(f"Not compared: {listed(not_compared)}.")
    if missing:
        sentences.append(f"No answer yet: {listed(missing)}.")
    return " ".join(sentences)


def runs_sentence(answers: Answers) -> str:
    """Return which data sets are trained at the paper's size, and which norms run on the others."""
    at_papers_size = []
    by_norms: dict[str, list[str]] = {}
    for answer in answers:
        if answer.plan.scale == "paper":
            at_papers_size.append(title(answer.task))
            continue
        norms = []
        for norm in preregistration().norms:
            runs = sum(len(records.norms[norm].recorded) for records in answer.records)
            if runs > 1:
                norms.append(title(norm))
        is_all = len(norms) == len(preregistration().norms)
        names = f"all {count(len(norms))} norms" if is_all else listed(norms)
        by_norms.setdefault(names, []).append(title(answer.task))
    parts = [f"{norms or 'no norm'} on {listed(tasks)}" for norms, tasks in by_norms.items()]
    return (
        f"{listed(at_papers_size)} are trained at the paper's size. The other data sets need a GPU or"
        f" a license for that, and have a smaller model and data here: {'; '.join(parts)}."
    )


def answer_rows(answers: Answers, page: str = "") -> list[list[str]]:
    """Return a row per data set with a text for each of ANSWER_COLUMNS, in two groups by size.

    A group begins with a row that has only its title. With a page, data sets link to their section
    of it.
    """
    rows = []
    for scale, name in GROUPS.items():
        group = [answer for answer in answers if answer.plan.scale == scale]
        if group:
            rows.append([f"**{name}**" if page else name, "", "", "", ""])
        rows += [_answer_row(answer, page) for answer in group]
    return rows


def _answer_row(answer: TaskAnswer, page: str) -> list[str]:
    name = title(answer.task)
    label = task_metric(answer.task).label
    if page:
        name = f"[{name}]({page}#{_anchor(answer.task)})"
    name = f"{name} ({label})"
    paper = _papers_gain(answer)
    comparison = answer.comparison
    if comparison is not None:
        seeds = answer.seeds.replace(" in each of ", " x ").removesuffix(" folds")
        word = answer.answer
        excluded = "; paper's excluded" if comparison.papers_gap == "excluded" else ""
        gain = comparison.text if word == "equivalent" else gain_text(comparison)
        return [name, paper, gain, seeds, f"{word}{excluded}"]
    if answer.setback:
        is_decided = answer.answer in ("better", "worse")
        remark = answer.answer if is_decided else "not compared"
        return [name, paper, "", "", f"{remark}: {answer.setback}"]
    seeds = str(answer.pairs)
    if answer.next_look is not None:
        seeds += f" of {answer.next_look}"
    return [name, paper, "", seeds, "no answer yet"]


def gain_text(comparison: Comparison) -> str:
    """Return a gain with its interval, such as `+0.67 (-3.82 to +5.15)`."""
    digits = comparison.digits
    return f"{comparison.gap + 0.0:+.{digits}f} ({comparison.interval.text(digits)})"


def _papers_gain(answer: TaskAnswer) -> str:
    """Return the paper's gain, in brackets where our runs have another size; perhaps ''."""
    gap = published_gap(answer.task, *question().norms(answer.task))
    if gap is None:
        return ""
    text = f"{gap.value + 0.0:+.2f}"  # no -0.00
    return text if answer.plan.scale == "paper" else f"({text})"


def _anchor(task: str) -> str:
    """Return the anchor that a heading with a data set's title has."""
    return title(task).lower().replace(" ", "-")


def score_sentence(answers: Answers) -> str:
    """Return which score of a run decides on which data sets."""
    by_score: dict[str, list[str]] = {}
    for answer in answers:
        if answer.comparison is not None:
            by_score.setdefault(score_name(answer), []).append(title(answer.task))
    parts = [f"{score} ({listed(names)})" for score, names in by_score.items()]
    return f"The score of a run is {'; '.join(parts)}." if parts else ""


def score_name(answer: TaskAnswer) -> str:
    """Return which score of a run an answer reads, in words."""
    better = answer.norms[0]
    results = [result for records in answer.records for result in records.norms[better].results]
    return score_words(answer.plan, results)


def score_words(plan: Plan, results: Iterable[Result]) -> str:
    """Return in words which score of these runs a plan reads."""
    if any(result.averaged for result in results):
        return OF_AVERAGED_WEIGHTS
    return SCORES.get(plan.quantity, plan.quantity)


def corrections(answers: Answers) -> str:
    """Return the answers corrected for the number of data sets, and the gain in translation."""
    significant = []
    translations = []
    for answer in answers:
        if answer.comparison is None:
            continue
        if answer.is_significant:
            significant.append(title(answer.task))
        if task_metric(answer.task).label == "BLEU":
            translations.append(answer.comparison)
    names = listed(significant) if significant else "none of them"
    text = f"Corrected for {data_sets(len(answers))} (Holm), AdaNorm is better or worse on {names}."
    if len(translations) < 2:
        return text
    # The looks differ: the strictest levels hold for all.
    difference = min(pair.levels.difference for pair in translations)
    equivalence = min(pair.levels.equivalence for pair in translations)
    levels = Levels(difference, equivalence)
    level = translations[0].level
    whole = pooled([replace(pair, levels=levels, level=level) for pair in translations])
    words = {"ahead": "better", "behind": "worse", "not told apart": "open"}
    return (
        f"{text} Over {count(len(translations))} translations together the gain is"
        f" {whole.gap:+.2f} BLEU (95 %: {whole.interval.text(2)}): {words[whole.sign]}."
    )


def repeats_sentence(results: Iterable[ClaimResult]) -> str:
    """Return which other claims on test scores are shown on which data sets, with their leads.

    A data set on which the paper's own numbers have another sign is named as such.
    """
    parts = []
    for result in results:
        claim = result.claim
        if claim.id == question().id or claim.quantity != "test" or claim.bound != "better":
            continue
        leads = []
        for task in result.run:
            comparison = task.pair.comparison
            if task.pair.answer == "better" and comparison is not None:
                leads.append(
                    f"{title(task.task)} ({comparison.gap:+.2f}{_papers_sign(claim, task)})"
                )
        if leads:
            better, worse = map(title, claim.norms(result.run[0].task))
            parts.append(f"{better} is better than {worse} on {listed(leads)}")
    if not parts:
        return ""
    claims = "[other claims](results/tables/claims.md)"
    return f"Comparisons behind {claims} that are decided, each by itself: {'; '.join(parts)}."


def _papers_sign(claim: Claim, task: TaskResult) -> str:
    """Return a remark where the paper's numbers do not have the sign of its claim; perhaps ''."""
    gap = published_gap(task.task, *claim.norms(task.task))
    if gap is None:
        return ", no number in the paper"
    if not gap.confirmed:
        return f"; the paper's {gap.value:+.2f} is unconfirmed"
    return "" if gap.value > 0 else f"; the paper has {gap.value + 0.0:+.2f}"


def answers_markdown(answers: Answers, earlier: Sequence[TaskResult]) -> str:
    """Return the page of the answers: one table, what earlier plans answered, and every run."""
    rows = [_full_row(answer) for answer in answers if answer.comparison is not None]
    blocks = [
        "# AdaNorm and LayerNorm: one answer per data set",
        how_to_read("Answers"),
        table_block(FULL_COLUMNS, rows),
        score_sentence(answers),
        corrections(answers),
        "## What earlier plans answered",
        how_to_read("Earlier plans"),
    ]
    history = [
        _earlier_row(before.plan, answer.norms, before.comparison)
        for answer in answers
        for before in answer.before
        if before.plan.name != "first"
    ]
    for task in earlier:
        pair = task.pair
        history.append(_earlier_row(pair.plan, pair.norms, pair.comparison, pair.answer))
    blocks.append(table_block(EARLIER_COLUMNS, dict.fromkeys(history)))
    for answer in answers:
        if answer.comparison is not None:
            blocks += [f"## {title(answer.task)}", f"`adanorm trace answer/{answer.task}`"]
            blocks.append("\n".join(["```text", *answer_trace(answer), "```"]))
    return page(blocks)


def _full_row(answer: TaskAnswer) -> list[str]:
    comparison = answer.comparison
    assert comparison is not None, "only answers with a comparison have a row"
    return [
        title(answer.task),
        _score(answer.plan),
        answer.plan.name,
        answer.seeds,
        gain_text(comparison),
        comparison.margin_interval.text(comparison.digits),
        f"{comparison.margin:g}",
        f"**{answer.answer}**",
        p_text(comparison.p),
        p_text(answer.family_p),
        f"{_papers_gain(answer)} {comparison.papers_gap}".strip(),
    ]


def _score(plan: Plan) -> str:
    label = task_metric(plan.task).label
    return f"{label}, mean of three evaluations" if plan.quantity == "top3" else label


def _earlier_row(
    plan: Plan, norms: tuple[str, str], comparison: Comparison | None, answer: str = "open"
) -> tuple[str, ...]:
    """Return a row; `answer` is that of a plan without a comparison."""
    better, worse = map(title, norms)
    about = (plan.name, title(plan.task), _score(plan), f"{better} over {worse}")
    if comparison is None:
        return (*about, "", "", "", f"{plan.margin:g}", answer)
    return (
        *about,
        str(comparison.seeds),
        gain_text(comparison),
        comparison.margin_interval.text(comparison.digits),
        f"{comparison.margin:g}",
        comparison.answer,
    )


def answer_trace(answer: TaskAnswer) -> list[str]:
    """Return lines on an answer: plan, score, gain, both intervals, and every run with its score."""
    plan = answer.plan
    comparison = answer.comparison
    better, worse = map(title, answer.norms)
    metric = task_metric(answer.task)
    looks = listed([str(look) for look in plan.looks.after])
    lines = [
        f"{title(answer.task)} ({metric.label}): {better} over {worse}, {SIZES[plan.scale]}",
        f"plan     {plan.name}: seeds {plan.first} to {plan.last}, read after {looks}",
        f"score    {score_name(answer)}",
    ]
    if comparison is None:
        lines.append(f"answer   none yet: {answer.setback or f'{answer.pairs} shared seeds'}")
    else:
        lines += _result_lines(answer, comparison)
    for fold, records in enumerate(answer.records, 1):
        lines += ["", f"fold {fold}"] if plan.folds else []
        lines += _pair_lines(answer, records)
    for norm in answer.norms:
        settings = [*plan.overrides, *(["data.fold=1"] if plan.folds else [])]
        command = ["adanorm", "run", f"task={plan.task}", f"norm={norm}", f"scale={plan.scale}"]
        repeat = shlex.join([*command, *settings, f"seed={plan.first}", "runs=repeated"])
        lines += ["", f"repeat the first of {title(norm)}:", f"  {repeat}"]
    return lines


def _result_lines(answer: TaskAnswer, comparison: Comparison) -> list[str]:
    """Return the gain, both intervals with what makes them, the answer and the paper's gain."""
    digits = comparison.digits + 2
    unit = "fold means" if answer.plan.folds else "pairs"
    levels = comparison.levels
    examples = f", examples {comparison.example_error:.4f}" if comparison.examples else ""
    lines = [
        f"gain     {comparison.gap:+.4f}, the mean of {comparison.seeds} {unit}",
        f"error    {comparison.error:.4f}: seeds {comparison.seed_error:.4f}{examples}",
        f"95 %     {comparison.interval.text(digits)}: who is better, by Student's t,",
        f"         {comparison.df:.4g} degrees of freedom, level {levels.difference:.4f} at this look",
        f"90 %     {comparison.margin_interval.text(digits)}: is it smaller than the margin of"
        f" {comparison.margin:g},",
        f"         level {levels.equivalence:.4f} at this look",
        f"p        {p_text(comparison.p)}; corrected for the data sets {p_text(answer.family_p)}",
        f"answer   {answer.answer}",
    ]
    if comparison.paper is not None:
        paper = f"{comparison.paper.value:+.2f}: {comparison.papers_gap}"
        lines.append(f"paper    {paper} (p {p_text(comparison.paper_p)})")
    return lines


def _pair_lines(answer: TaskAnswer, records: Evidence) -> list[str]:
    """Return lines on every run that is compared, and each pair's difference."""
    better, worse = answer.norms
    plan = answer.plan
    lines = []
    gaps = []
    for seed in records.variance.shared(better, worse)[: answer.seeds_compared]:
        gap = records.norms[better].by_seed[seed] - records.norms[worse].by_seed[seed]
        gaps.append(gap)
        lines += ["", f"seed {seed}: {gap:+.4f}"]
        for norm in answer.norms:
            lines += _run_lines(plan, norm, records.norms[norm], seed)
    if len(gaps) > 1 and not plan.folds:
        lines += ["", f"standard deviation of the {counted(len(gaps), 'pair')}: {stdev(gaps):.4f}"]
    return lines


def _run_lines(plan: Plan, norm: str, side: Cell, seed: int) -> list[str]:
    position = [run.seed for run in side.runs].index(seed)
    run = side.runs[position]
    result = side.results[position]
    evaluations = scored(run, result, plan.quantity, side.metric)
    parts = [f"{evaluation.test:.4f} at {evaluation.update}" for evaluation in evaluations]
    value = abs(side.by_seed[seed])
    mean = "mean of " if len(parts) > 1 else ""
    if result.averaged:
        updates = listed([str(update) for update in result.averaged])
        parts = [f"weights averaged over those at {updates}"]
    return [
        f"  {title(norm):10} {value:8.4f} = {mean}{', '.join(parts)}",
        f"    {location(run.folder())}",
    ]
