"""Print the table of norms, from the records of trials; with output=FILE also write it."""

import re

from adanorm.cli.command import Arguments, Key, Usage, folder_of, output_path
from adanorm.files import write_whole
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
PART = re.compile(r"(<!-- arena: .*? -->\n).*?(<!-- /arena -->)", re.DOTALL)


def main(arguments: Arguments) -> None:
    """Print the table of norms."""
    keys = arguments.keys
    text = arena_page(load_rules(keys["beds"]), folder_of(keys["runs"]))
    print(text)
    if not keys["output"]:
        return
    path = output_path(keys["output"])
    content = path.read_text("utf-8") if path.is_file() else ""
    if PART.search(content):
        text = PART.sub(lambda match: f"{match[1]}{text}{match[2]}", content)
    elif content:
        raise ValueError(f"output={path}: exists, and has no marks of the table")
    write_whole(path, text.encode())
    print(path)
