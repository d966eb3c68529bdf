"""Random trees for tests, made by recursion, without any code of the parser."""

import random

from adanorm.data.treebanks.trees import Tree


def projective(count: int, seed: int, *, labels: tuple[str, ...] = ()) -> Tree:
    """Return a random projective tree: a span's root, with the spans beside it as its children."""
    source = random.Random(seed)
    heads = [0] * count

    def fill(start: int, end: int, head: int) -> None:
        while start < end:  # cut off the spans of the children, one after the other
            cut = source.randint(start + 1, end)
            root = source.randrange(start, cut)
            heads[root] = head
            fill(start, root, root + 1)
            fill(root + 1, cut, root + 1)
            start = cut

    root = source.randrange(count)
    fill(0, root, root + 1)
    fill(root + 1, count, root + 1)
    return tree(heads, source, labels)


def any_tree(count: int, seed: int) -> Tree:
    """Return a random tree, likely with crossing arcs: a word's head comes before it in a random order."""
    source = random.Random(seed)
    order = source.sample(range(count), count)
    heads = [0] * count
    for position, word in enumerate(order[1:], 1):
        heads[word] = 1 + order[source.randrange(position)]
    return tree(heads, source, ())


def tree(heads: list[int], source: random.Random, labels: tuple[str, ...]) -> Tree:
    count = len(heads)
    return Tree(
        words=tuple(f"w{source.randrange(9)}" for _ in range(count)),
        tags=tuple(source.choice(("NN", "VB", ".", ",")) for _ in range(count)),
        heads=tuple(heads),
        labels=tuple(source.choice(labels) for _ in range(count)) if labels else None,
        punctuation=tuple(source.random() < 0.2 for _ in range(count)),
    )


def dominates(heads: tuple[int, ...], head: int, word: int) -> bool:
    while word not in (0, head):
        word = heads[word - 1]
    return word == head
