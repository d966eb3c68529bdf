"""Lines: a run or an analysis that has ended is a line of JSON with its files' texts, verbatim.

Its long texts (outputs, counts, rows) have lines of their own, and the record's line has their
SHA-256. Where it ends, all this is `record.jsonl` in its folder, the record's line last. Where it
is kept, <norm>.jsonl beside the folder <norm> has the lines of all runs, and <norm>.examples their
long texts: per text a line `RUN KEY CONTENT`, its content a bzip2 file (from older versions, a gzip
file) in which line feeds, zero bytes and backslashes are escaped. With `KEY=BASE` the content is the
text's differences from that of the run BASE. Both files only grow, so git joins the lines of two
branches.
"""

import bz2
import gc
import io
import json
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, wraps
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

from filelock import FileLock

from adanorm.files import (
    Fields,
    Values,
    create_folder,
    with_checksum,
    without_checksum,
    write_whole,
)
from adanorm.records.differences import differences, restored
from adanorm.records.integrity import (
    COUNTS,
    FILES,
    LARGEST,
    OUTPUTS,
    TEST_ROWS,
    packed,
    text_digest,
    unpacked,
)

RECORD = "record.jsonl"  # the file of a run's folder with its line
SUFFIX, EXAMPLES = ".jsonl", ".examples"
# The texts that have a line of their own, by their key in a record's line.
TEXTS = {
    "outputs": OUTPUTS,
    "counts": COUNTS,
    "test_metrics": TEST_ROWS,
    "metrics": "metrics.jsonl",
    "rows": "rows.jsonl",
}
# What a line of examples has in place of bytes that end it, or that make a file binary for git. The
# backslash comes first, as the other escapes begin with one.
ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\0": b"\\0"}
PLAIN = {escape: plain for plain, escape in ESCAPES.items()}
OLDER_TEXTS = ("outputs", "counts")  # those that older versions kept in files of their own
NO_RECORD = (ValueError, RecursionError, KeyError, TypeError, AttributeError)
# Of a file: its times of change and its size; None if it is not there.
State: TypeAlias = tuple[int, int, int] | None
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
# What `once` has computed in the blocks of `unchanging`.
_COMPUTED: list[dict[Any, Any]] = []
_MISSING = object()


class Example(NamedTuple):
    """A long text of a run as it is kept."""

    run: str
    key: str  # of TEXTS
    content: bytes  # a bzip2 or gzip file, or the text itself
    base: str = ""  # the run from whose text it has the differences; none: it is the whole text


Examples: TypeAlias = Mapping[tuple[str, str], Sequence[Example]]  # by run and key


@contextmanager
def unchanging() -> Iterator[None]:
    """In this block, or decorated function, no record changes, so that each is looked up once.

    What has been looked up stays: to search it for garbage would take a fifth of the time.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    _COMPUTED.append({})
    try:
        yield
    finally:
        _COMPUTED.pop()
        if is_collecting:
            gc.enable()


def once(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Return a function of records that computes once per arguments while no record changes."""

    @wraps(function)
    def computed(*arguments: Arguments.args, **options: Arguments.kwargs) -> Value:
        if not _COMPUTED:
            return function(*arguments, **options)
        key = function, arguments, *options.items()
        values = _COMPUTED[-1]
        value = values.get(key, _MISSING)  # looked up only once: paths are slow to compare
        if value is _MISSING:
            value = values[key] = function(*arguments, **options)
        return cast("Value", value)

    return computed


class Line:
    """The line of a run that has ended.

    A line that is not kept has its long texts in `texts`.
    """

    def __init__(
        self, file: Path, values: Fields, texts: Mapping[str, bytes] | None = None
    ) -> None:
        self.file = file
        self.values = values
        self._texts = texts
        self.run: str = values["run"]
        self.files: Mapping[str, str] = values["files"]
        for text in (self.run, *self.files.values()):
            if not isinstance(text, str):
                raise TypeError("its run or a file is not text")
        self.names = [*self.files]  # of the record's files
        for key, name in TEXTS.items():
            if values.get(key):
                self.names.append(name)

    @property
    def is_kept(self) -> bool:
        """Whether a file keeps it, with its long texts beside it."""
        return self._texts is None

    @cached_property
    def is_whole(self) -> bool:
        """Whether the line fits its checksum, and its long texts their digests in the line."""
        try:
            without_checksum(self.values)
        except ValueError:
            return False
        if self._texts is None:
            return True  # `text` looks for those with the digests
        named = {key: self.values[key] for key in TEXTS if self.values.get(key) is not None}
        return named == {key: text_digest(text) for key, text in self._texts.items()}

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record; None if it has no such file."""
        if name not in self.names:
            return None
        if name in self.files:
            return _bytes(self.files[name])
        (key,) = (key for key, file in TEXTS.items() if file == name)
        text = self.text(key)
        return packed(text) if text is not None and name == OUTPUTS else text

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of the record's files that can be read, by name."""
        return _present({name: self.content(name) for name in self.names})

    def text(self, key: str) -> bytes | None:
        """Return the text of a key of TEXTS; None if no text has the digest in the line."""
        if self._texts is not None:
            return self._texts.get(key)
        digest = self.values.get(key)
        # The first records were counted after they had been kept: their lines name no counts.
        is_counted_later = key == "counts" and digest is None
        examples = _examples_beside(self.file)
        for example in examples.get((self.run, key), ()):
            for text in _texts_of(example, examples):
                if is_counted_later or text_digest(text) == digest:
                    return text
        return None

    def texts(self) -> dict[str, bytes]:
        """Return the long texts that there are, by key."""
        return _present({key: self.text(key) for key in TEXTS})

    def as_text(self) -> bytes:
        """Return the lines that a folder or a contribution has of it: long texts, then its own."""
        objects = [{"run": self.run, key: _text(text)} for key, text in self.texts().items()]
        return b"".join(map(_json, [*objects, self.values]))

    def kept_as(self, file: Path, kept: Examples = MappingProxyType({})) -> dict[Path, bytes]:
        """Return what is added to keep it: to the examples beside `file`, then to `file`.

        `kept` are the examples that are there already.
        """
        examples = [_example(self.run, key, text, kept) for key, text in self.texts().items()]
        contents = {file.with_suffix(EXAMPLES): b"".join(examples), file: _json(self.values)}
        return {path: content for path, content in contents.items() if content}


def _present(contents: Mapping[str, bytes | None]) -> dict[str, bytes]:
    return {name: content for name, content in contents.items() if content is not None}


def line_of(run: str, contents: Mapping[str, bytes], file: Path) -> Line:
    """Return the line of a record from its files' bytes; `file` is where it comes from.

    Raises ValueError if the outputs cannot be unpacked, or if packing them here gives other bytes.
    """
    files = {}
    for name, content in contents.items():
        if name not in TEXTS.values():
            files[name] = _text(content)
    values: Values = {"run": run, "files": files, "outputs": None}
    texts = {}
    for key, name in TEXTS.items():
        if name not in contents:
            continue
        text = contents[name]
        if name == OUTPUTS:
            text = unpacked(text)
            if packed(text) != contents[name]:
                raise ValueError(f"{OUTPUTS} is not packed as Python's gzip does here")
        texts[key] = text
        values[key] = text_digest(text)
    return Line(file, with_checksum(values), texts)


def parse(file: Path, content: bytes) -> Iterator[Line]:
    """Yield the lines of a text in which each follows its long texts (`Line.as_text`).

    Raises ValueError naming a line that is no record.
    """
    texts: dict[str, bytes] = {}
    for number, line in enumerate(io.BytesIO(content), 1):
        try:
            values = _object(line)
            if "files" in values:
                yield Line(file, values, texts)
                texts = {}
            else:
                (key,) = TEXTS.keys() & values.keys()
                texts[key] = _bytes(values[key])
        except NO_RECORD:
            raise ValueError(f"its line {number} is no record") from None


def line_in(folder: Path) -> Line | None:
    """Return the line of the run or analysis that has ended in a folder; None if none has.

    Older versions left the record's files in the folder: the line is made of them. Raises
    ValueError if what is there is no record.
    """
    file = folder / RECORD
    older_file = folder / "result.json"
    if file.is_file():
        lines = [*parse(file, _content(file))]
        if [line.run for line in lines] != [folder.name]:
            raise ValueError(f"{RECORD} is not of this run")
        return lines[0]
    if not older_file.is_file():
        return None
    paths = [*(folder / name for name in FILES), older_file, *sorted(folder.glob("code/**/*"))]
    files = [path for path in paths if path.is_file()]
    contents = {path.relative_to(folder).as_posix(): _content(path) for path in files}
    return line_of(folder.name, contents, older_file)


def has_ended(folder: Path) -> bool:
    """Return whether a run or an analysis has ended in a folder."""
    return (folder / RECORD).exists() or (folder / "result.json").exists()


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path.name} has more than {LARGEST:,} bytes")
    return path.read_bytes()


def file_of(parent: Path) -> Path:
    """Return the file with the lines that are kept of a folder's runs."""
    return parent.with_name(parent.name + SUFFIX)


def parents(root: Path) -> Iterator[Path]:
    """Yield the folders below a root of whose runs lines are kept."""
    for file in root.rglob(f"*{SUFFIX}"):
        has_older_texts = file.with_suffix("").suffix[1:] in OLDER_TEXTS
        if file.name not in (*FILES, RECORD) and not has_older_texts:
            yield file.with_name(file.name.removesuffix(SUFFIX))


def kept_lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file by the run's name; warn of a line that is no record."""
    return _lines_in(file, state_of(file))


@lru_cache(maxsize=4096)
def _lines_in(file: Path, state: State) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for line in _parsed(file, lambda text: Line(file, _object(text))):
        # Two branches may have kept a run: its first whole line counts.
        if line.run not in lines or not lines[line.run].is_whole:
            lines[line.run] = line
    return lines


@once
def _examples_beside(file: Path) -> Examples:
    """Return the long texts kept beside a file of lines."""
    files = (file.with_suffix(EXAMPLES), *_older_files(file).values())
    return _examples_in(file, tuple(map(state_of, files)))


@lru_cache(maxsize=4096)
def _examples_in(file: Path, states: tuple[State, ...]) -> Examples:
    examples = defaultdict(list)  # several of a run if two branches have kept it
    newer = _parsed(file.with_suffix(EXAMPLES), _example_of)
    for example in chain(newer, _older_examples(file)):
        examples[example.run, example.key].append(example)
    return examples


def _older_files(file: Path) -> dict[str, Path]:
    """Return by key the files in which older versions kept outputs and counts, as texts."""
    return {key: file.with_suffix(f".{key}{SUFFIX}") for key in OLDER_TEXTS}


def _older_examples(file: Path) -> Iterator[Example]:
    for key, path in _older_files(file).items():
        for values in _parsed(path, _object):
            yield Example(str(values.get("run")), key, _bytes(str(values.get(key))))


def _parsed(file: Path, parse_line: Callable[[bytes], Value]) -> Iterator[Value]:
    """Yield what each line of a file holds, if there is the file.

    Warn of a line that is no record.
    """
    # Not splitlines: a gzip file has other bytes that end a line for Python.
    content = file.read_bytes() if state_of(file) else b""
    lines = content.removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines if content else (), 1):
        try:
            yield parse_line(line)
        except NO_RECORD:
            warnings.warn(f"{file}, line {number} is not counted: it is no record", stacklevel=1)


def _example(run: str, key: str, text: bytes, kept: Examples) -> bytes:
    """Return the line of a file of examples with a long text of a run."""
    content = bz2.compress(text)
    base = _base(run, text, kept) if key == "outputs" else None
    if base is not None:
        base_run, base_text = base
        changed = differences(text, base_text)
        changes = content if changed is None else bz2.compress(changed)
        if len(changes) < len(content):
            key = f"{key}={base_run}"
            content = changes
    for plain, escape in ESCAPES.items():
        content = content.replace(plain, escape)
    return f"{run} {key} ".encode() + content + b"\n"


def _example_of(line: bytes) -> Example:
    run, named, content = line.split(b" ", 2)
    key, _, base = named.decode().partition("=")
    content = re.sub(rb"\\.", lambda escape: PLAIN[escape[0]], content)
    return Example(run.decode(), key, content, base)


def _base(run: str, text: bytes, kept: Examples) -> tuple[str, bytes] | None:
    """Return the first run with whole outputs of as many lines, and these; None if there is none."""
    for (base_run, key), examples in kept.items():
        if key != "outputs" or base_run == run or examples[0].base:
            continue
        with suppress(ValueError):
            base_text = _unpacked(examples[0].content)
            if base_text.count(b"\n") == text.count(b"\n"):
                return base_run, base_text
    return None


def _texts_of(example: Example, examples: Examples) -> Iterator[bytes]:
    """Yield the text of an example; with a base, one for each whole text that the base has.

    Two branches may have kept the base with other outputs. A text that is broken is left out.
    """
    if not example.base:
        with suppress(ValueError):
            yield _unpacked(example.content)
        return
    for base in examples.get((example.base, example.key), ()):
        if base.base:
            continue
        with suppress(ValueError):
            yield restored(_unpacked(example.content), _unpacked(base.content))


def _unpacked(content: bytes) -> bytes:
    """Return a text from its bzip2 or gzip file; raises ValueError if that is broken or too large."""
    if content.startswith(b"\x1f\x8b"):  # gzip's first bytes; no text begins so
        return unpacked(content)
    if not content.startswith(b"BZh9"):
        return content
    unzip = bz2.BZ2Decompressor()
    try:
        text = unzip.decompress(content, LARGEST)
    except OSError as error:
        raise ValueError(f"its long text cannot be read ({error})") from None
    if not unzip.eof:
        raise ValueError("its long text is broken or too large")
    return text


def append(file: Path, line: Line) -> bool:
    """Add a line, with its long texts, to the lines that a file keeps.

    Return whether something was added: the line, or texts of it that were lost. Raises ValueError if
    another record of its name is kept. Texts that an older version kept are packed.
    """
    create_folder(file.parent)
    with FileLock(file.with_name(f"{file.name}.lock")):
        older = [_example(run, key, text, {}) for run, key, text, _ in _older_examples(file)]
        _add(file.with_suffix(EXAMPLES), b"".join(older))
        for path in _older_files(file).values():
            path.unlink(missing_ok=True)
        kept_line = kept_lines(file).get(line.run)
        kept_examples = _examples_beside(file)
        if kept_line is not None and kept_line.is_whole:
            contents, kept_contents = line.contents(), kept_line.contents()
            is_same = {*kept_line.names} == {*line.names}
            if not is_same or contents | kept_contents != contents:
                raise ValueError(f"{file.name} has another record of {line.run}")
            if kept_contents == contents:
                return False
            kept_examples = {}  # lost texts come back whole: others may differ from them
        for path, content in line.kept_as(file, kept_examples).items():
            _add(path, content)
    return True


def _add(file: Path, content: bytes) -> None:
    """Add the lines that a file lacks: an interrupted call may have written some."""
    before = file.read_bytes() if file.exists() else b""
    if before and not before.endswith(b"\n"):  # an editor removed the last line's end
        before += b"\n"
    present = set(before.split(b"\n"))
    new_lines = [line + b"\n" for line in content.split(b"\n") if line not in present]
    if new_lines:
        # Through a link to its file. Path.resolve raises on a link that leads to itself.
        target = Path(os.path.realpath(file))
        write_whole(target, before + b"".join(new_lines))


# Bytes that are no UTF-8, such as a patch may have, survive the way to text and back.
def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _json(values: Fields) -> bytes:
    return _bytes(json.dumps(values, ensure_ascii=False) + "\n")


def _object(line: bytes) -> Any:
    values = json.loads(_text(line))
    if not isinstance(values, dict):
        raise TypeError("no JSON object")
    return values


@once
def state_of(path: Path) -> State:
    """Return what changes when a file does; None if there is no file."""
    with suppress(OSError):
        state = path.stat()
        if S_ISREG(state.st_mode):  # reading a pipe would never end
            return state.st_mtime_ns, state.st_ctime_ns, state.st_size
    return None
