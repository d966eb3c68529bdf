"""The arc-standard system (Nivre 2004) over many sentences, compiled by Numba where it is installed.

Sentences lie one after the other in flat arrays, P positions in all. A sentence of n words has
n + 2: nothing, the root, its words; inside it they count from 0. Actions are numbered: 0 shift,
then a left-arc a label, then a right-arc a label; K labels, numbered from 1, K = 1 without any.
"""

from typing import NamedTuple

import numpy as np

from adanorm.data.treebanks.encoding import Numbers, Sentences
from adanorm.norms.backends import cached_njit

SHIFT, LEFT_ARC, RIGHT_ARC = 0, 1, 2
NOTHING, ROOT, FIRST_WORD = 0, 1, 2
WORDS, LABELLED = 18, 12  # positions that features are of; of the last of them, labels too
_LEFTMOST, _RIGHTMOST, _SECOND = 0, 1, 2  # rows of children; the second ones are two rows further
_BELOW = 2  # places below the root's, so that a small stack's second and third are nothing

TwoArrays = tuple[Numbers, Numbers]
Scores = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class States(NamedTuple):
    """Where S sentences are on their way to a tree."""

    starts: Numbers  # (S + 1,)
    front: Numbers  # (S,) position of the buffer's first word
    top: Numbers  # (S,) place of the stack's top
    stack: Numbers  # (P + S,) each sentence has one place more than positions
    heads: Numbers  # (P,) positions, 0 while there is none
    labels: Numbers  # (P,) 0 while there is none
    children: Numbers  # (4, P)


def first_states(starts: Numbers) -> States:
    """Return the states that sentences begin with: the root alone on the stack."""
    sentences, positions = len(starts) - 1, int(starts[-1])
    stack = np.zeros(positions + sentences, dtype=np.int64)
    stack[starts[:-1] + np.arange(sentences) + _BELOW] = ROOT
    return States(
        starts=starts,
        front=np.full(sentences, FIRST_WORD),
        top=np.full(sentences, _BELOW),
        stack=stack,
        heads=np.zeros(positions, dtype=np.int64),
        labels=np.zeros(positions, dtype=np.int64),
        children=np.zeros((4, positions), dtype=np.int64),
    )


@cached_njit
def stacked(states: States, s: int, depth: int) -> int:
    """Return a position on the stack of sentence `s`, 0 deep: the top; NOTHING where it is smaller."""
    return states.stack[states.starts[s] + s + states.top[s] - depth]


@cached_njit
def allowed(states: States, s: int, action: int) -> bool:
    """Return whether shift, left-arc or right-arc is possible in sentence `s`.

    The root takes its one child last, when the buffer is empty: a tree has one root.
    """
    waiting = states.starts[s] + states.front[s] < states.starts[s + 1]
    words = states.top[s] - _BELOW
    if action == SHIFT:
        return waiting
    return words >= 2 or (action == RIGHT_ARC and words == 1 and not waiting)


@cached_njit
def is_done(states: States, s: int) -> bool:
    """Return whether sentence `s` has its tree: a sentence of n words takes 2n actions."""
    return states.top[s] == _BELOW and states.starts[s] + states.front[s] == states.starts[s + 1]


@cached_njit
def arc(states: States, s: int, action: int) -> tuple[int, int]:
    """Return the head and the dependent of a left-arc, else those of a right-arc, in sentence `s`."""
    first, second = stacked(states, s, 0), stacked(states, s, 1)
    return (first, second) if action == LEFT_ARC else (second, first)


@cached_njit
def advance(states: States, s: int, action: int, label: int) -> None:
    """Take an action that is allowed in sentence `s`: shift, or attach with a label."""
    if action == SHIFT:
        states.top[s] += 1
        states.stack[states.starts[s] + s + states.top[s]] = states.front[s]
        states.front[s] += 1
        return
    head, dependent = arc(states, s, action)
    start, side = states.starts[s], _LEFTMOST if action == LEFT_ARC else _RIGHTMOST
    states.heads[start + dependent] = head
    states.labels[start + dependent] = label
    # A head's children come in order, the nearest first: a new one is outermost.
    states.children[side + _SECOND, start + head] = states.children[side, start + head]
    states.children[side, start + head] = dependent
    states.top[s] -= 1
    states.stack[start + s + states.top[s]] = head


@cached_njit
def write_positions(states: States, s: int, out: Numbers) -> None:
    """Write the positions that Chen and Manning's features are of (2014, section 3.1) into `out` (18,).

    Three of the stack and three of the buffer; then, of the stack's first two, the leftmost,
    rightmost, second leftmost and second rightmost child, the leftmost's leftmost and the
    rightmost's rightmost.
    """
    start = states.starts[s]
    for place in range(3):
        out[place] = stacked(states, s, place)
        ahead = states.front[s] + place
        out[3 + place] = ahead if start + ahead < states.starts[s + 1] else NOTHING
    for place in range(2):
        for which in range(4):
            out[6 + 2 * which + place] = states.children[which, start + out[place]]
        out[14 + place] = states.children[_LEFTMOST, start + out[6 + place]]
        out[16 + place] = states.children[_RIGHTMOST, start + out[8 + place]]


@cached_njit
def write_features(states: States, s: int, sentences: Sentences, first_label: int, out: Numbers) -> None:
    """Write the ids of words, of tags and, if `first_label` is not 0, of labels into `out` (36 or 48,)."""
    write_positions(states, s, out)
    start = states.starts[s]
    for place in range(LABELLED if first_label else 0):
        label = states.labels[start + out[WORDS - LABELLED + place]]
        out[2 * WORDS + place] = first_label + label
    for place in range(WORDS):  # last: ids take the places of positions
        position = start + out[place]
        out[place] = sentences.words[position]
        out[WORDS + place] = sentences.tags[position]


@cached_njit
def write_features_of(
    states: States, rows: Numbers, sentences: Sentences, first_label: int, out: Numbers
) -> None:
    """Write the features of the sentences `rows` (A,) into `out` (A, F)."""
    for place in range(len(rows)):
        write_features(states, rows[place], sentences, first_label, out[place])


@cached_njit
def advance_best(states: States, rows: Numbers, scores: Scores, kinds: int) -> Numbers:
    """Take the allowed action of the highest score (A, 1 + 2K) in the sentences `rows` (A,).

    Returns those that are not done (A',). Where no score is a number it shifts, or draws a right arc.
    """
    going = np.zeros(len(rows), dtype=np.bool_)
    for place in range(len(rows)):
        s = rows[place]
        best, chosen, taken = -np.inf, 0, SHIFT
        if not allowed(states, s, SHIFT):  # a shift would write past the arrays
            chosen, taken = 1 + kinds, RIGHT_ARC
        for number in range(1 + 2 * kinds):
            action = SHIFT if number == 0 else LEFT_ARC if number <= kinds else RIGHT_ARC
            if scores[place, number] > best and allowed(states, s, action):
                best, chosen, taken = scores[place, number], number, action
        advance(states, s, taken, (chosen - 1) % kinds + 1)
        going[place] = not is_done(states, s)
    return rows[going]


@cached_njit
def oracle(states: States, s: int, heads: Numbers, waiting: Numbers) -> int:
    """Return the action that leads to a projective tree (the static oracle; Nivre 2008, section 4).

    `heads` (P,) are positions; `waiting` (P,) counts the children that each still lacks.
    """
    start, first, second = states.starts[s], stacked(states, s, 0), stacked(states, s, 1)
    if second >= FIRST_WORD and heads[start + second] == first:
        return LEFT_ARC
    if second >= ROOT and heads[start + first] == second and waiting[start + first] == 0:
        return RIGHT_ARC
    return SHIFT


@cached_njit
def follow(
    states: States, sentences: Sentences, gold: TwoArrays, kinds: int, first_label: int, steps: TwoArrays
) -> None:
    """Lead sentences to their projective trees, and write every step: features (N, F), action (N,).

    `gold` are heads (P,), positions, and labels (P,), numbers from 1.
    """
    (heads, labels), (inputs, targets) = gold, steps
    waiting = np.zeros(len(heads), dtype=np.int64)
    for s in range(len(states.front)):
        for position in range(states.starts[s] + FIRST_WORD, states.starts[s + 1]):
            waiting[states.starts[s] + heads[position]] += 1
    step = 0
    for s in range(len(states.front)):
        start = states.starts[s]
        while not is_done(states, s):
            write_features(states, s, sentences, first_label, inputs[step])
            action = oracle(states, s, heads, waiting)
            head, dependent = arc(states, s, action)
            label = labels[start + dependent]
            targets[step] = 0 if action == SHIFT else label + (action - LEFT_ARC) * kinds
            if action != SHIFT:
                waiting[start + head] -= 1
            advance(states, s, action, label)
            step += 1
