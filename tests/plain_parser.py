"""The arc-standard system of one sentence, in plain Python, to compare the vectorized one with."""

from collections.abc import Callable, Iterator

from adanorm.data.treebanks.encoding import SPECIAL, UNKNOWN, Vocabulary
from adanorm.data.treebanks.trees import Tree


class State:
    """A stack, a buffer and the arcs so far of a sentence of `count` words; 0 is the root."""

    def __init__(self, count: int) -> None:
        self.stack, self.buffer = [0], list(range(1, count + 1))
        self.heads: dict[int, int] = {}
        self.labels: dict[int, int] = {}
        self.children: dict[int, list[int]] = {word: [] for word in range(count + 1)}

    def allowed(self) -> list[bool]:
        """Return whether shift, left-arc and right-arc are possible."""
        words = len(self.stack) - 1
        return [bool(self.buffer), words >= 2, words >= 2 or (words == 1 and not self.buffer)]

    def advance(self, action: int, label: int) -> None:
        """Shift, attach the second to the first (1), or the first to the second (2)."""
        if action == 0:
            self.stack.append(self.buffer.pop(0))
            return
        first, second = self.stack.pop(), self.stack.pop()
        head, dependent = (first, second) if action == 1 else (second, first)
        self.heads[dependent], self.labels[dependent] = head, label
        self.children[head] = sorted([*self.children[head], dependent])
        self.stack.append(head)

    def positions(self) -> list[int | None]:
        """Return the 18 words whose properties are features, None where there is no word."""
        stack = [*self.stack[::-1][:3], None, None, None][:3]
        buffer = [*self.buffer[:3], None, None, None][:3]
        near = [
            self._child(word, *side_and_number)
            for side_and_number in ((0, 0), (1, 0), (0, 1), (1, 1))
            for word in stack[:2]
        ]
        left = [self._child(child, 0, 0) for child in near[:2]]
        right = [self._child(child, 1, 0) for child in near[2:4]]
        return [*stack, *buffer, *near, *left, *right]

    def _child(self, word: int | None, side: int, number: int) -> int | None:
        """Return a child to the left (0) or right (1), counted from the outside."""
        if word is None:
            return None
        children = self.children[word]
        beside = (
            [c for c in children if c < word]
            if side == 0
            else [c for c in children if c > word][::-1]
        )
        return beside[number] if number < len(beside) else None


def feature_extractor(tree: Tree, vocabulary: Vocabulary) -> Callable[[State], list[int]]:
    """Return a function from a state to its features: ids of words, tags and, if there are any, labels."""
    first = vocabulary.first_tag
    tag_ids = {tag: first + SPECIAL + index for index, tag in enumerate(vocabulary.tags)}
    words: dict[int | None, int] = {None: 0, 0: 1}  # None: no word, 0: the root
    tags: dict[int | None, int] = {None: first, 0: first + 1}
    for position, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True), 1):
        form = word.lower() if vocabulary.lowercase else word
        words[position] = vocabulary.word_ids.get(form, UNKNOWN)
        tags[position] = tag_ids.get(tag, first + UNKNOWN)

    def features(state: State) -> list[int]:
        positions = state.positions()
        labels = [state.labels.get(word, 0) if word else 0 for word in positions[6:]]
        label_ids = (
            [vocabulary.first_label + label for label in labels] if vocabulary.labels else []
        )
        return [
            *(words[word] for word in positions),
            *(tags[word] for word in positions),
            *label_ids,
        ]

    return features


def transitions(tree: Tree, vocabulary: Vocabulary) -> Iterator[tuple[list[int], int]]:
    """Yield features and action at every step of the static oracle over a projective tree."""
    features = feature_extractor(tree, vocabulary)
    kinds = max(1, len(vocabulary.labels))
    numbers = {label: 1 + index for index, label in enumerate(vocabulary.labels)}
    heads = (None, *tree.heads)
    labels = (0, *(numbers.get(label, 1) for label in tree.labels or ["_"] * len(tree)))
    state = State(len(tree))
    while state.buffer or len(state.stack) > 1:
        first, second = ([None, *state.stack][-1], [None, *state.stack][-2])
        if second and heads[second] == first:
            action, dependent = 1, second
        elif (
            first
            and heads[first] == second
            and all(word in state.heads for word in range(1, len(heads)) if heads[word] == first)
        ):
            action, dependent = 2, first
        else:
            action, dependent = 0, 0
        label = labels[dependent] if action else 0
        yield features(state), label + (action - 1) * kinds if action else 0
        state.advance(action, label)


def parse(
    tree: Tree, vocabulary: Vocabulary, scores: Callable[[list[int]], list[float]]
) -> list[int]:
    """Return the heads of a sentence, by the allowed action with the best score at each step."""
    features = feature_extractor(tree, vocabulary)
    kinds = max(1, len(vocabulary.labels))
    state = State(len(tree))
    while state.buffer or len(state.stack) > 1:
        allowed = state.allowed()
        best, chosen = -float("inf"), 0
        for number, score in enumerate(scores(features(state))):
            action = 0 if number == 0 else 1 + (number - 1) // kinds
            if allowed[action] and score > best:
                best, chosen = score, number
        action = 0 if chosen == 0 else 1 + (chosen - 1) // kinds
        state.advance(action, chosen - (action - 1) * kinds if action else 0)
    return [state.heads[word] for word in range(1, len(tree) + 1)]
