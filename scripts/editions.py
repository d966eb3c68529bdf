"""Makes the small editions of free corpora that come with the package: `python -m scripts.editions`.

It reads the whole corpora (from a mirror or the network) and writes the files under
src/adanorm/data/shipped, each as xz; src/adanorm/data/catalogue.yaml has their checksums.
"""

import hashlib
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import TreebankConfig
from adanorm.data import packed
from adanorm.data.fetch import SHIPPED, fetch
from adanorm.data.inspection import folded, without_copies
from adanorm.data.translation.free_corpora import Pair, pairs_of, sides_of, tatoeba
from adanorm.data.treebanks.conll import load_treebank
from adanorm.data.treebanks.kept import Trees
from adanorm.data.treebanks.trees import Tree

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
TATOEBA = {"train": 28_000, "valid": 1000, "test": 1000}  # pairs
ALT = {"train": 7000, "valid": 500, "test": 500}
ALT_LONGEST = 25  # words of the English sentence
CRAFT = {"train": 2400, "valid": 300, "test": 300}  # sentences


def main() -> None:
    """Write all editions; print each file's line for the catalogue."""
    data = compose_experiment(["task=ptb", "scale=open"]).data
    _write_pairs(
        "tatoeba-30k", ("en", "de"), _few_of_tatoeba(tatoeba(fetch("tatoeba-de-en", data)))
    )
    _write_pairs("alt-8k", ("en", "vi"), _few_of_alt(pairs_of(fetch("alt-en-vi", data).values())))
    assert isinstance(data, TreebankConfig)
    trees, _ = load_treebank(data)
    _write_trees("craft-3k", trees)
    enwik, _ = packed.content(fetch("enwik8-4m", data)["enwik8-pages-1-955.gz"])
    _write("enwik6", enwik[:1_000_000])


def _few_of_tatoeba(splits: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    """Return the pairs with the smallest digests of each split, in their order."""
    few = {}
    for split, pairs in splits.items():
        by_digest = sorted(range(len(pairs)), key=lambda index: _digest(pairs[index]))
        few[split] = [pairs[index] for index in sorted(by_digest[: TATOEBA[split]])]
    return few


def _digest(pair: Pair) -> bytes:
    return hashlib.sha256("\n".join(pair).encode()).digest()


def _few_of_alt(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Return the first pairs that are short and no copies; neighbors are of one article."""
    short: dict[str, Pair] = {}
    for pair in pairs:
        if len(pair[0].split()) <= ALT_LONGEST:
            short.setdefault(folded(pair[0]), pair)
    chosen = iter(short.values())
    splits = {}
    for split, size in ALT.items():
        splits[split] = [next(chosen) for _ in range(size)]
    return without_copies("alt-8k", splits, sides_of)


def _write_pairs(name: str, languages: tuple[str, str], splits: dict[str, list[Pair]]) -> None:
    for split, pairs in splits.items():
        for language, sentences in zip(languages, zip(*pairs, strict=True), strict=True):
            _write(f"{name}/{split}.{language}", _text(sentences))


def _write_trees(name: str, trees: Trees) -> None:
    for split, size in CRAFT.items():
        _write(f"{name}/{split}.tsv", _text(map(_columns, trees[split][:size])))


def _columns(tree: Tree) -> str:
    """Return a tree as lines `word tag head label`, with a line feed at the end."""
    assert tree.labels is not None, "CRAFT has labels"
    lines = []
    for row in zip(tree.words, tree.tags, map(str, tree.heads), tree.labels, strict=True):
        lines.append("\t".join(row) + "\n")
    return "".join(lines)


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write(name: str, content: bytes) -> None:
    path = Path(SHIPPED, f"{name}.xz")
    path.parent.mkdir(exist_ok=True)
    packed_content = lzma.compress(content, check=lzma.CHECK_CRC64, filters=FILTERS)
    path.write_bytes(packed_content)
    checksum = hashlib.sha256(packed_content).hexdigest()
    print(f"{path.relative_to(SHIPPED)} {len(packed_content)} {checksum}")


if __name__ == "__main__":
    main()
