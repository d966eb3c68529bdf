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
PART = re.compile(r"(<!-- arena: .*? -->\n).*?(<!-- /arena -->)", re.DOTALL)


def main(arguments: Arguments) -> None:
    """Print the table of norms."""
    keys = arguments.keys
    path = output_path(keys["output"]) if keys["output"] else None
    content = path.read_text("utf-8") if path and path.is_file() else ""
    if content and not PART.search(content):
        raise ValueError(f"output={keys['output']}: exists, and has no marks of the table")
    text = arena_page(load_rules(keys["beds"]), folder_of(keys["runs"]))
    print(text)
    if path is not None:
        page = PART.sub(lambda match: f"{match[1]}{text}{match[2]}", content) or text
        with writing_to(path) as file:
            file.write(page.encode())
        print(path)
