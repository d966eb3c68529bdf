"""Free corpora: splits that share no sentence, what comes with the package, and files that are wrong."""

import gzip
import hashlib
import html
import lzma
import shutil
import string
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import ByteTextConfig, ParallelConfig, TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.config.titles import title
from adanorm.data import fetch as fetching
from adanorm.data.byte_streams import load_streams
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import SHIPPED, fetch
from adanorm.data.translation.corpora import corpus_files, read_corpus
from adanorm.data.translation.free_corpora import groups_of, split_by_groups
from adanorm.data.treebanks.conll import load_treebank
from adanorm.records.published import departures_from_paper, papers_sources
from adanorm.runs.auto_scale import resolve_auto
from scripts import editions

NOWHERE = ("data.mirror=nowhere", "data.mirrors=[]")
SHIPPED_EDITIONS = {
    "de-en": "tatoeba-30k",
    "en-de": "tatoeba-30k",
    "en-vi": "alt-8k",
    "ptb": "craft-3k",
}
# The size of each split, and the beginning of the SHA-256 of its sentences.
Splits = dict[str, tuple[int, str]]
OPEN_SPLITS: dict[str, Splits] = {
    "de-en": {
        "train": (164_352, "c27ad6651df4"),
        "valid": (2_000, "c959a2305fea"),
        "test": (2_000, "ac877061a56a"),
    },
    "en-de": {
        "train": (164_352, "a76879e25c38"),
        "valid": (2_000, "5bb589088067"),
        "test": (2_000, "25adef574fce"),
    },
    "en-vi": {
        "train": (49_850, "f935a716342f"),
        "valid": (1_542, "232fac2729cb"),
        "test": (1_268, "6015d6f68bc8"),
    },
    "ptb": {
        "train": (17_439, "0cb89fda6a5e"),
        "valid": (2_554, "a1517a449a68"),
        "test": (9_099, "995aa852cd71"),
    },
}
SHIPPED_SPLITS: dict[str, Splits] = {
    "de-en": {
        "train": (28_000, "dc806278065e"),
        "valid": (1_000, "b8829d3e2129"),
        "test": (1_000, "c754c80e72c1"),
    },
    "en-de": {
        "train": (28_000, "5055390ae2f2"),
        "valid": (1_000, "1a3124f94207"),
        "test": (1_000, "33ed0427bcd1"),
    },
    "en-vi": {
        "train": (7_000, "4c0011adc7e9"),
        "valid": (500, "ccbe3ab07d56"),
        "test": (500, "c214e4c09a0b"),
    },
    "ptb": {
        "train": (2_400, "5f9af445e2ea"),
        "valid": (300, "bda251c780f0"),
        "test": (300, "d0de38bcb7f5"),
    },
}
ENWIK8 = {
    "mini": (
        [900_000, 50_000, 50_000],
        "369b688978f649681136198fb96db14c1616756260c55fb4b65e9bc049552cad",
    ),
    "open": (
        [3_738_656, 207_703, 207_704],
        "7956f43d6c58c53672b92f03188d071bdef32b4bfaf0d3f2c10470fc81a06903",
    ),
}
words = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=2).map(" ".join)


WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(sentence: str) -> str:
    """Return a sentence in lower case without ASCII punctuation and white space, entities read."""
    text = html.unescape(sentence).lower()
    return "".join(text.translate(WITHOUT_PUNCTUATION).split())


def shared(splits: dict[str, set[str]]) -> dict[tuple[str, str], set[str]]:
    return {
        (a, b): splits[a] & splits[b] for a, b in combinations(splits, 2) if splits[a] & splits[b]
    }


def sentences(run: Experiment) -> list[dict[str, list[str]]]:
    """Return the sentences of each side by split, as they are read from the run's files."""
    data = run.data
    if isinstance(data, TreebankConfig):
        trees, _ = load_treebank(data)
        return [{split: [" ".join(tree.words) for tree in part] for split, part in trees.items()}]
    assert isinstance(data, ParallelConfig)
    texts = read_corpus(data, corpus_files(data), {})
    pairs = {split: [*zip(*text, strict=True)] for split, text in texts.items()}
    return [{split: list(sides[side]) for split, sides in pairs.items()} for side in (0, 1)]


def edition(task: str, *overrides: str) -> Experiment:
    """Return a run on what comes with the package, without a mirror."""
    preset = f"preset={SHIPPED_EDITIONS[task]}"
    return compose_experiment([f"task={task}", "scale=mini", preset, *NOWHERE, *overrides])


def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


def checked(run: Experiment) -> dict[str, tuple[int, str]]:
    """Return size and digest of each split, after checking that none of its sentences is in another."""
    sides = sentences(run)
    for side in sides:
        assert shared({split: {*map(plain, part)} for split, part in side.items()}) == {}
    counted = {}
    for split, part in sides[0].items():
        text = "\n".join(line for side in sides for line in side[split])
        counted[split] = (len(part), hashlib.sha256(text.encode()).hexdigest()[:12])
    return counted


@pytest.mark.parametrize("task", SHIPPED_EDITIONS)
def test_no_sentence_of_a_shipped_edition_is_in_two_splits(tmp_path: Path, task: str) -> None:
    assert checked(edition(task, f"data.cache={tmp_path}")) == SHIPPED_SPLITS[task]


@pytest.mark.parametrize(
    "task",
    # English to German reads the same file as German to English.
    ["de-en", "en-vi", "ptb", pytest.param("en-de", marks=pytest.mark.nightly)],
)
def test_no_sentence_of_an_open_corpus_is_in_two_splits(
    mirror: Path, tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = (f"data.mirror={mirror}", f"data.cache={tmp_path}")
    assert checked(compose_experiment([f"task={task}", "scale=open", *where])) == OPEN_SPLITS[task]
    if task == "ptb":
        said = "1,512 of 18,951 in train, 226 of 2,780 in valid"
        assert said in capsys.readouterr().out, "what is left out is counted and said"


@pytest.mark.parametrize("scale", ["mini", "open"])
def test_the_splits_of_enwik8_follow_each_other_and_hold_every_byte_once(
    mirror: Path, tmp_path: Path, scale: str
) -> None:
    where = (f"data.mirror={mirror}", f"data.cache={tmp_path}")
    data = compose_experiment(["task=enwik8", f"scale={scale}", *where]).data
    assert isinstance(data, ByteTextConfig)
    parts = load_streams(data).splits
    text = b"".join(part.numpy().tobytes() for part in parts.values())
    sizes, checksum = ENWIK8[scale]
    assert [len(part) for part in parts.values()] == sizes
    assert hashlib.sha256(text).hexdigest() == checksum


def test_a_shipped_edition_is_a_part_of_its_corpus(mirror: Path, tmp_path: Path) -> None:
    whole = compose_experiment(["task=ptb", "scale=open", f"data.mirror={mirror}"])
    (parts,), (corpus,) = sentences(edition("ptb", f"data.cache={tmp_path}")), sentences(whole)
    assert [len(part) for part in parts.values()] == [2400, 300, 300]
    for split, part in parts.items():
        assert part == corpus[split][: len(part)]


@pytest.mark.nightly
def test_the_shipped_editions_are_made_of_the_whole_corpora(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADANORM_MIRROR", str(mirror))
    monkeypatch.setattr(editions, "SHIPPED", tmp_path)
    editions.main()
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.xz"))
    assert made == sorted(path.relative_to(SHIPPED) for path in SHIPPED.rglob("*.xz"))
    for name in made:  # another release of xz may pack the same text into other bytes
        texts = [lzma.decompress((folder / name).read_bytes()) for folder in (tmp_path, SHIPPED)]
        assert texts[0] == texts[1], name


def test_the_shipped_million_bytes_are_the_mirrors(mirror: Path, tmp_path: Path) -> None:
    mini = ["task=enwik8", "scale=mini", f"data.cache={tmp_path}", *NOWHERE]
    data = compose_experiment(mini).data
    assert isinstance(data, ByteTextConfig)
    corpus = load_streams(data)
    text = b"".join(bytes(part.tolist()) for part in corpus.splits.values())
    assert text == gzip.decompress((mirror / "enwik8" / "enwik6.gz").read_bytes())


def test_all_that_comes_with_the_package_has_a_checksum_and_is_small() -> None:
    files = [path for path in SHIPPED.rglob("*") if path.is_file() and path.suffix != ".md"]
    listed = set()
    for source in SOURCES.values():
        for file in source.files:
            for address in file.addresses:
                if address.startswith("package:"):
                    listed.add(SHIPPED / address.removeprefix("package:"))
                    assert file.checksum is not None
                    assert source.license
    assert {*files} == listed
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) <= 4 << 20
    readme = (SHIPPED / "README.md").read_text()
    for name in ("CC BY 2.0", "CC BY 3.0", "CC BY 4.0", "tatoeba.org", "manythings.org", "NICT"):
        assert name in readme


@given(st.lists(st.tuples(words, words), min_size=6, max_size=14))
def test_groups_share_no_sentence(pairs: list[tuple[str, str]]) -> None:
    groups = groups_of(pairs)
    assert sorted(index for group in groups for index in group) == [*range(len(pairs))]
    for first, second in combinations(groups, 2):
        for side in (0, 1):
            assert {pairs[i][side] for i in first}.isdisjoint(pairs[i][side] for i in second)
    for group in groups:  # from any pair, a chain of shared sentences leads to all others
        reached = {group[0]}
        for _ in group:
            known = {(side, pairs[i][side]) for i in reached for side in (0, 1)}
            reached |= {i for i in group if {(0, pairs[i][0]), (1, pairs[i][1])} & known}
        assert reached == {*group}


def test_of_a_held_out_group_one_pair_is_kept() -> None:
    pairs = [("Go!", "Geh!"), ("go", "Los!"), ("Run", "Lauf"), ("Stop", "Halt"), ("Wait", "Warte")]
    splits = split_by_groups(pairs, 1)
    assert [len(splits["valid"]), len(splits["test"])] == [1, 1]
    held_out = {*splits["valid"], *splits["test"]}
    dropped = {*pairs} - held_out - {*splits["train"]}
    assert dropped <= {("go", "Los!")}
    assert split_by_groups(pairs, 1) == splits


@pytest.mark.parametrize("task", SHIPPED_EDITIONS)
def test_auto_takes_what_comes_with_the_package_and_says_so(
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    without_network(monkeypatch)
    chosen = [f"task={task}", "seed=999", f"data.cache={tmp_path}", f"runs={tmp_path}", *NOWHERE]
    resolved = resolve_auto([*chosen, "device=cpu", "scale=auto"])
    assert resolved[-2:] == ["scale=mini", f"preset={SHIPPED_EDITIONS[task]}"]
    (line,) = capsys.readouterr().out.splitlines()
    assert "cannot be had" in line
    assert f"preset={SHIPPED_EDITIONS[task]} takes what comes with the package" in line
    run = compose_experiment(resolved)
    assert run.identity["data"]["source"] == SHIPPED_EDITIONS[task]
    assert run.digest != compose_experiment([*chosen, "scale=mini"]).digest


@pytest.mark.parametrize("task", ["rt", "sst5"])
def test_auto_says_where_the_files_are_to_be_had_and_what_to_set(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_network(monkeypatch)
    chosen = [f"task={task}", "seed=999", f"data.cache={tmp_path}", *NOWHERE, "scale=auto"]
    with pytest.raises(ValueError, match=rf"from http.*into {task}/ .*ADANORM_MIRROR") as refused:
        resolve_auto(chosen)
    assert "\n" not in str(refused.value)


def test_a_file_of_the_same_name_is_not_taken_for_what_is_shipped(tmp_path: Path) -> None:
    run = edition("ptb", f"data.cache={tmp_path}")
    own = tmp_path / "craft-3k" / "train.tsv.xz"
    own.parent.mkdir()
    own.write_bytes(lzma.compress(b"mine\tNN\t0\troot\n"))
    assert fetch("craft-3k", run.data)["train.tsv.xz"] == SHIPPED / "craft-3k" / "train.tsv.xz"


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [damaged, Path.unlink])
@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("ptb", "craft/craft-dev.conllu.gz"),
        ("de-en", "tatoeba-de-en/deu-eng.zip"),
        ("en-vi", "alt-en-vi/alt-wikinews.vi.gz"),
        ("enwik8", "enwik8/enwik8-pages-1-955.gz"),
    ],
)
def test_a_damaged_or_missing_file_is_named_in_one_line_and_nothing_is_kept(
    mirror: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    file: str,
    damage: object,
) -> None:
    without_network(monkeypatch)
    assert callable(damage)
    run = compose_experiment(
        [f"task={task}", "scale=open", f"data.mirror={tmp_path}", f"data.cache={tmp_path / 'c'}"]
    )
    source = SOURCES[run.data.source]
    for name in source.includes or [run.data.source]:
        for entry in SOURCES[name].files:
            link = tmp_path / SOURCES[name].folder / entry.name
            link.parent.mkdir(exist_ok=True)
            shutil.copy(mirror / SOURCES[name].folder / entry.name, link)
            link.chmod(0o600)
    damage(tmp_path / file)
    with pytest.raises(ValueError, match=Path(file).name) as refused:
        fetch(run.data.source, run.data)
    assert "\n" not in str(refused.value)
    assert not any(kept_files(tmp_path / "c"))


@pytest.mark.parametrize("damage", [damaged, Path.unlink])
def test_a_damaged_or_missing_file_of_the_package_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: object
) -> None:
    assert callable(damage)
    without_network(monkeypatch)
    shutil.copytree(SHIPPED, tmp_path / "shipped")
    monkeypatch.setattr(fetching, "SHIPPED", tmp_path / "shipped")
    damage(tmp_path / "shipped" / "craft-3k" / "train.tsv.xz")
    places = [f"data.cache={tmp_path / 'c'}", f"runs={tmp_path}", *NOWHERE]
    run = compose_experiment(resolve_auto(["task=ptb", "seed=999", *places, "scale=auto"]))
    with pytest.raises(
        ValueError, match=r"get train\.tsv\.xz: .*It comes with the package: install"
    ):
        fetch(run.data.source, run.data)
    assert not (tmp_path / "c").exists()


OPEN_TASKS = ("ptb", "de-en", "en-de", "en-vi", "enwik8", "rt", "sst5", "mnist")


@pytest.mark.parametrize("task", OPEN_TASKS)
def test_tables_call_an_open_corpus_by_its_own_name(task: str) -> None:
    runs = [compose_experiment([f"task={task}", f"scale={scale}"]) for scale in ("open", "paper")]
    is_another = runs[0].data.source != runs[1].data.source
    assert (title(task, "open") != title(task)) == is_another


@pytest.mark.parametrize("task", OPEN_TASKS)
def test_every_file_of_an_open_corpus_has_an_address_and_a_checksum(task: str) -> None:
    source = compose_experiment([f"task={task}", "scale=open"]).data.source
    for name in SOURCES[source].includes or [source]:
        entry = SOURCES[name]
        if not all(file.addresses for file in entry.files):
            assert entry.instead is not None
            entry = SOURCES[entry.instead]
        assert all(file.addresses and file.checksum for file in entry.files)
        assert entry.license
        if "CC BY" in entry.license and "TED" not in entry.license and task != "mnist":
            assert entry.attribution or SOURCES[name].attribution


def test_the_talks_are_the_same_from_the_address_of_their_plain_text(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_network(monkeypatch)
    talks = mirror / "iwslt15-en-vi"
    plain = tmp_path / "iwslt15-en-vi"
    plain.mkdir()
    for archive in talks.glob("*.tgz"):
        shutil.copy(archive, plain)
    for side, language in (("src", "en"), ("tgt", "vi")):
        text = gzip.decompress((talks / f"train-first30k.{language}.gz").read_bytes())
        (plain / f"{side}-train.txt").write_bytes(text.rstrip(b"\n").replace(b"\n", b"\r\n"))
    sides = []
    for folder in (mirror, tmp_path):
        places = (f"data.mirror={folder}", f"data.cache={tmp_path / 'c'}")
        first, second = sentences(compose_experiment(["task=en-vi", "scale=mini", *places]))
        words = [[line.split() for line in side["train"]] for side in (first, second)]
        sides.append(words)
    assert sides[0] == sides[1]


@pytest.mark.parametrize(
    ("task", "setting", "other"),
    [
        ("en-de", "preset=alt-8k", "vi"),
        ("en-vi", "preset=tatoeba-30k", "de"),
        ("en-vi", "data.source=tatoeba-de-en", "de"),
        ("de-en", "data.source=en-vi-50k", "vi"),
    ],
)
def test_a_corpus_of_other_languages_is_refused(task: str, setting: str, other: str) -> None:
    data = compose_experiment([f"task={task}", "scale=mini", setting, *NOWHERE]).data
    assert isinstance(data, ParallelConfig)
    with pytest.raises(ValueError, match=f"holds en and {other}, not {task.replace('-', ' and ')}"):
        corpus_files(data)


def kept_files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_an_edition_is_of_its_scale_alone_and_never_the_papers() -> None:
    with pytest.raises(ValueError, match="preset=craft-3k: has the data of scale=mini alone"):
        compose_experiment(["task=ptb", "preset=craft-3k"])
    for task, name in SHIPPED_EDITIONS.items():
        assert name not in papers_sources(task)
        assert departures_from_paper(edition(task)) == "mini scale"


@pytest.mark.parametrize("task", ["rt", "sst5", "mnist"])
def test_scale_open_is_the_papers_where_its_data_are_free(task: str) -> None:
    identities = []
    for scale in ("open", "paper"):
        identity = dict(compose_experiment([f"task={task}", f"scale={scale}"]).identity)
        del identity["scale"]
        identities.append(identity)
    assert identities[0] == identities[1]
