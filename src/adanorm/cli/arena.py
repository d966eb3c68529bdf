"""Print the table of norms, from the records of trials; with output=FILE also write it."""

import re

from adanorm.cli.command import Arguments, Key, Usage, folder_of, output_path
from adanorm.files import writing_to
from adanorm.trials.arena import arena_page
from adanorm.trials.rules import load_rules

USAGE = Usage(
    keys={
        "runs": Key("folder of the records (default: results/runs, with contributions)"),
        "beds": Key("a file like conf/trial.yaml (default: that file)"),
        "output": Key("file to write, such as docs/arena.md: the part between its marks"),
    },
    examples=("", "output=docs/arena.md"),
)
PART = re.compile(rb"(<!-- arena: .*? -->\r?\n).*?(<!-- /arena -->)", re.DOTALL)


def main(arguments: Arguments) -> None:
    """Print the table of norms."""
    keys = arguments.keys
    path = None
    if keys["output"]:
        path = output_path(keys["output"], is_replaced=lambda page: PART.search(page.read_bytes()))
    text = arena_page(load_rules(keys["beds"]), folder_of(keys["runs"]))
    print(text)
    if path is not None:
        table = text.encode()
        page, count = PART.subn(
            lambda match: match[1] + table + match[2],
            path.read_bytes() if path.is_file() else b"",
        )
        with writing_to(path) as file:
            file.write(page if count else table)
        print(path)
