"""The arc-standard system (Nivre 2004) over many sentences, compiled by Numba if it is there.

S sentences lie one after the other in flat arrays of P positions. A sentence of n words has n + 2
positions, counted from 0 inside it: nothing, the root, its words. Actions are numbered: 0 is shift,
then one left-arc per label, then one right-arc per label. The K labels are numbered from 1; K = 1
without labels.
"""

from typing import NamedTuple

import numpy as np

from adanorm.data.treebanks.encoding import Numbers, Sentences
from adanorm.norms.closed_form import cached_njit

SHIFT, LEFT_ARC, RIGHT_ARC = 0, 1, 2
NOTHING, ROOT, FIRST_WORD = 0, 1, 2
WORDS, LABELLED = 18, 12  # number of positions that give features; the last 12 give labels too
_LEFTMOST, _RIGHTMOST, _SECOND = 0, 1, 2  # rows of `children`; second children are two rows further
_BELOW = 2  # empty slots below the root, so that a small stack's second and third are nothing

TwoArrays = tuple[Numbers, Numbers]
Scores = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class States(NamedTuple):
    """The parser states of S sentences."""

    starts: Numbers  # (S + 1,) where each sentence starts in the arrays (P,)
    front: Numbers  # (S,) position of the buffer's first word
    top: Numbers  # (S,) slot of the stack's top
    stack: Numbers  # (P + S,) positions; a sentence has one slot more than positions
    heads: Numbers  # (P,) position of each word's head, 0 while it has none
    labels: Numbers  # (P,) label of each word's arc, 0 while it has none
    # (4, P) positions of leftmost, rightmost, second leftmost and second rightmost child
    children: Numbers


def first_states(starts: Numbers) -> States:
    """Return the initial states: the root alone on each sentence's stack."""
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
    """Return the position `depth` below the top of the stack of `s`; NOTHING below the root."""
    return states.stack[states.starts[s] + s + states.top[s] - depth]


@cached_njit
def allowed(states: States, s: int, action: int) -> bool:
    """Return whether the action (shift, left-arc or right-arc) is possible in sentence `s`.

    The root gets its only child last, when the buffer is empty.
    """
    waiting = states.starts[s] + states.front[s] < states.starts[s + 1]
    words = states.top[s] - _BELOW
    if action == SHIFT:
        return waiting
    return words >= 2 or (action == RIGHT_ARC and words == 1 and not waiting)


@cached_njit
def is_done(states: States, s: int) -> bool:
    """Return whether the tree of sentence `s` is complete; with n words that takes 2n actions."""
    return states.top[s] == _BELOW and states.starts[s] + states.front[s] == states.starts[s + 1]


@cached_njit
def arc(states: States, s: int, action: int) -> tuple[int, int]:
    """Return head and dependent in sentence `s` of a left-arc, or else of a right-arc."""
    first, second = (
        stacked(
            states,
            s,
            0,
        ),
        stacked(states, s, 1),
    )
    return (first, second) if action == LEFT_ARC else (second, first)


@cached_njit
def advance(states: States, s: int, action: int, label: int) -> None:
    """Apply an allowed action to sentence `s`: shift, or draw an arc with a label."""
    if action == SHIFT:
        states.top[s] += 1
        states.stack[states.starts[s] + s + states.top[s]] = states.front[s]
        states.front[s] += 1
        return
    head, dependent = arc(states, s, action)
    start, side = states.starts[s], _LEFTMOST if action == LEFT_ARC else _RIGHTMOST
    states.heads[start + dependent] = head
    states.labels[start + dependent] = label
    # A head gets its children on one side nearest first, so the newest is the outermost.
    states.children[side + _SECOND, start + head] = states.children[side, start + head]
    states.children[side, start + head] = dependent
    states.top[s] -= 1
    states.stack[start + s + states.top[s]] = head


@cached_njit
def write_features(
    states: States, s: int, sentences: Sentences, first_label: int, out: Numbers
) -> None:
    """Write the ids of words, tags and, if `first_label` is not 0, labels into `out` (36 or 48,).

    They are those of Chen and Manning's positions (2014, section 3.1): the stack's first three and
    the buffer's first three. Then, for each of the stack's first two: the leftmost, rightmost,
    second leftmost and second rightmost child, the leftmost child of the leftmost and the rightmost
    child of the rightmost.
    """
    start = states.starts[s]
    for i in range(3):
        out[i] = stacked(states, s, i)
        ahead = states.front[s] + i
        out[3 + i] = ahead if start + ahead < states.starts[s + 1] else NOTHING
    for i in range(2):
        for row in range(4):
            out[6 + 2 * row + i] = states.children[row, start + out[i]]
        out[14 + i] = states.children[_LEFTMOST, start + out[6 + i]]
        out[16 + i] = states.children[_RIGHTMOST, start + out[8 + i]]
    for i in range(LABELLED if first_label else 0):
        label = states.labels[start + out[WORDS - LABELLED + i]]
        out[2 * WORDS + i] = first_label + label
    for i in range(WORDS):  # last, because ids overwrite positions
        position = start + out[i]
        out[i] = sentences.words[position]
        out[WORDS + i] = sentences.tags[position]


@cached_njit
def write_features_of(
    states: States, rows: Numbers, sentences: Sentences, first_label: int, out: Numbers
) -> None:
    """Write the features of the sentences `rows` (A,) into `out` (A, F)."""
    for i in range(len(rows)):
        write_features(
            states,
            rows[i],
            sentences,
            first_label,
            out[i],
        )


@cached_njit
def advance_best(states: States, rows: Numbers, scores: Scores, kinds: int) -> Numbers:
    """Apply the allowed action of the highest score (A, 1 + 2K) to the sentences `rows` (A,).

    Returns those not done (A',). If all scores are NaN or -inf it shifts, or draws a right-arc if
    it cannot.
    """
    is_open = np.zeros(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        s = rows[i]
        best, best_number, best_action = -np.inf, 0, SHIFT
        if not allowed(states, s, SHIFT):  # a shift would write past the arrays
            best_number, best_action = 1 + kinds, RIGHT_ARC
        for number in range(1 + 2 * kinds):
            action = SHIFT if number == 0 else LEFT_ARC if number <= kinds else RIGHT_ARC
            if scores[i, number] > best and allowed(
                states,
                s,
                action,
            ):
                best, best_number, best_action = scores[i, number], number, action
        advance(
            states,
            s,
            best_action,
            (best_number - 1) % kinds + 1,
        )
        is_open[i] = not is_done(states, s)
    return rows[is_open]


@cached_njit
def oracle(states: States, s: int, heads: Numbers, waiting: Numbers) -> int:
    """Return the next action towards a projective tree (the static oracle; Nivre 2008, section 4).

    `heads` (P,) holds the tree's positions of heads; `waiting` (P,) counts the children not yet
    attached.
    """
    start, first, second = (
        states.starts[s],
        stacked(
            states,
            s,
            0,
        ),
        stacked(states, s, 1),
    )
    if second >= FIRST_WORD and heads[start + second] == first:
        return LEFT_ARC
    if second >= ROOT and heads[start + first] == second and waiting[start + first] == 0:
        return RIGHT_ARC
    return SHIFT


@cached_njit
def follow(
    states: States,
    sentences: Sentences,
    gold: TwoArrays,
    kinds: int,
    first_label: int,
    steps: TwoArrays,
) -> None:
    """Lead sentences to their projective trees; write features (N, F) and actions (N,).

    `gold` holds the positions of heads (P,) and the labels (P,), numbered from 1.
    """
    (heads, labels), (inputs, targets) = gold, steps
    waiting, step = np.zeros(len(heads), dtype=np.int64), 0
    for s in range(len(states.front)):
        start = states.starts[s]
        for position in range(start + FIRST_WORD, states.starts[s + 1]):
            waiting[start + heads[position]] += 1
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
