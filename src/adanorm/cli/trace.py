"""Print the runs behind a cell of a table, or behind the answer on a data set.

Write NORM and TASK as the table or the configuration does. `answer/TASK` prints what AdaNorm's
lead over LayerNorm is made of: each run's evaluations and score, each pair, both intervals. The
printed commands put a repeated run into a folder of its own (runs=repeated), so that it can be
compared with the record.
"""

import shlex
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of, hanging
from adanorm.cli.record_arguments import table_cell
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.records.environment import code_text
from adanorm.records.folder import location
from adanorm.records.result import Result
from adanorm.reporting.tables.answers import answer_trace, question
from adanorm.reporting.tables.table import origins
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.claims import task_answers

USAGE = Usage(
    name="STUDY/NORM/TASK|answer/TASK",
    keys={"runs": Key("folder of the records (default: results/)")},
    examples=("answer/mnist", "table4/AdaNorm/RT", "my-study.yaml/MyNorm/RT runs=runs"),
)


def main(arguments: Arguments) -> None:
    """Print the runs behind the cell that the command line names."""
    print("\n".join(trace(arguments.names[0], folder_of(arguments.keys["runs"]))))


def trace(address: str, runs: str | None = None) -> list[str]:
    """Return lines on the runs of a cell, STUDY/NORM/TASK, or of an answer, answer/TASK.

    Raises ValueError if there is no such cell or data set.
    """
    kind, _, name = address.partition("/")
    if kind == "answer":
        return _answer(name, runs)
    table, cell, (row, task) = table_cell(address, runs)
    study = table.study
    lines = [f"{study.title}: {title(row)}, {title(task, study.scale)}"]
    number = table.published(row, task)
    paper = f"; the paper has {number.text}: {table.verdict(row, task)}" if number else ""
    lines.append(f"test {cell.metric} {table.ours(row, task)}{paper}")
    command = shlex.join(["adanorm", "run", *table.lines[row, task]])
    results = _by_seed(cell)
    beside = table.beside.get((row, task))
    planned = () if beside and table.reads_newest else study.seeds
    for seed in sorted({*planned, *results}):
        lines.append("")
        if seed in results:
            lines += _lines(*results[seed], cell.metric, f"{command} seed={seed}")
        else:
            of_runs = f" runs={shlex.quote(runs)}" if runs else ""
            lines += [f"seed {seed}: not run", f"  {command} seed={seed}{of_runs}"]
    if beside:
        lines += ["", f"{table.label_beside}: {table.text_beside(row, task) or 'not run'}"]
        for seed, (folder, result) in _by_seed(beside).items():
            lines += ["", *_lines(folder, result, beside.metric, f"{command} seed={seed}")]
    return lines


def _by_seed(cell: Cell) -> dict[int, tuple[Path, Result]]:
    """Return the folder and the result of each run of a cell that has ended, by its seed."""
    pairs = zip(cell.folders, cell.results, strict=True)
    return {result.seed: (folder, result) for folder, result in pairs}


def _answer(name: str, runs: str | None) -> list[str]:
    tasks = question().tasks
    named = [task for task in tasks if name.lower() in (task, title(task).lower())]
    if not named:
        raise ValueError(f"answer/{name}: no answer on {name!r}; choose from {', '.join(tasks)}")
    answers = {answer.task: answer for answer in task_answers(question(), runs=runs)}
    return answer_trace(answers[named[0]])


def _lines(folder: Path, result: Result, metric: str, command: str) -> list[str]:
    ending = f"{result.status}: {result.reason}"
    if result.status == "done":
        ending = f"test {metric} {result.test_score(metric):.4f} at update {result.best_step}"
    record = reader.record(folder)
    lines = [f"seed {result.seed}: {ending}", f"  record   {location(folder)}"]
    for text in origins(record) or (["committed here"] if record.is_kept else []):
        lines += hanging("  made     ", text)
    if environment := record.environment:
        lines += hanging("  commit   ", code_text(environment))
        facts = [str(environment.get(key)) for key in ("device", "precision")]
        packages = environment.get("packages", {})
        facts += [f"{name} {version}" for name, version in packages.items()]
        lines += hanging("  computed ", ", ".join(facts))
    lines += [f"  data     {name} {checksum[:16]}" for name, checksum in result.data.items()]
    return [*lines, f"  repeat   {command} runs=repeated norm.backend={record.norm_backend}"]
