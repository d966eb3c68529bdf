"""The arc-standard system (Nivre 2004), advancing many sentences together.

Positions in a sentence of n words: 0 nothing, 1 the root, 2 to n + 1 its words. B sentences,
N = 2 + the words of the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

SHIFT, LEFT_ARC, RIGHT_ARC = 0, 1, 2
NOTHING, ROOT, FIRST_WORD = 0, 1, 2
WORDS, LABELLED = 18, 12  # positions that features are of; of the last of them, labels too
_BELOW = 2  # places below the root's, so that a small stack's second and third are nothing


@dataclass(frozen=True)
class States:
    """Where B sentences are on their way to a tree; `advance` changes them in place."""

    last: Tensor  # (B,) position of the last word
    front: Tensor  # (B,) position of the buffer's first word
    top: Tensor  # (B,) column of the stack's top
    stack: Tensor  # (B, _BELOW + N - 1)
    heads: Tensor  # (B, N) positions, 0 while there is none
    labels: Tensor  # (B, N) 0 while there is none
    children: Tensor  # (B, 4, N): leftmost, rightmost, second leftmost, second rightmost

    @classmethod
    def of(cls, lengths: Tensor) -> States:
        """Return the first states of sentences of so many words: the root alone on the stack."""
        count, positions = len(lengths), int(lengths.max()) + FIRST_WORD

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(count, *shape, dtype=torch.long, device=lengths.device)

        stack = zeros(_BELOW + positions - 1)
        stack[:, _BELOW] = ROOT
        return cls(
            last=lengths + ROOT,
            front=zeros() + FIRST_WORD,
            top=zeros() + _BELOW,
            stack=stack,
            heads=zeros(positions),
            labels=zeros(positions),
            children=zeros(4, positions),
        )

    def __getitem__(self, rows: slice) -> States:
        """Return some of the sentences, sharing their state."""
        return States(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def stacked(self, count: int) -> Tensor:
        """Return the positions on top of the stacks, topmost first, (B, count <= 3)."""
        return self.stack.gather(1, self.top[:, None] - torch.arange(count, device=self.top.device))

    def positions(self) -> Tensor:
        """Return the positions that Chen and Manning's features are of (2014, section 3.1), (B, 18).

        Three of the stack and three of the buffer; then, of the stack's first two, the leftmost,
        rightmost, second leftmost and second rightmost child, the leftmost's leftmost and the
        rightmost's rightmost.
        """
        stack = self.stacked(3)
        ahead = self.front[:, None] + torch.arange(3, device=self.front.device)
        buffer = ahead.where(ahead <= self.last[:, None], NOTHING)
        near = self.children.gather(2, stack[:, None, :2].expand(-1, 4, -1))
        far = self.children[:, :2].gather(2, near[:, :2])
        return torch.cat([stack, buffer, near.flatten(1), far.flatten(1)], 1)

    def allowed(self) -> Tensor:
        """Return which of shift, left-arc and right-arc are possible, (B, 3) bool.

        The root takes its one child last, when the buffer is empty: a tree has one root.
        """
        waiting = self.front <= self.last
        two = self.top > _BELOW + 1  # words on the stack, or more
        one = self.top == _BELOW + 1
        return torch.stack([waiting, two, two | (one & ~waiting)], 1)

    def advance(self, action: Tensor, label: Tensor) -> None:
        """Take one action (B,) in every sentence, an arc with its label (B,); each must be allowed."""
        first, second = self.stacked(2).unbind(1)
        shifted = (action == SHIFT).nonzero().squeeze(1)
        self.top[shifted] += 1
        self.stack[shifted, self.top[shifted]] = self.front[shifted]
        self.front[shifted] += 1
        for arc, heads, dependents in ((LEFT_ARC, first, second), (RIGHT_ARC, second, first)):
            rows = (action == arc).nonzero().squeeze(1)
            head, dependent, side = heads[rows], dependents[rows], arc - LEFT_ARC
            self.heads[rows, dependent] = head
            self.labels[rows, dependent] = label[rows]
            # A head's children come in order, the nearest first: a new one is outermost.
            self.children[rows, 2 + side, head] = self.children[rows, side, head]
            self.children[rows, side, head] = dependent
            self.top[rows] -= 1
            self.stack[rows, self.top[rows]] = head


Choose = Callable[[States], tuple[Tensor, Tensor]]


def derive(lengths: Tensor, choose: Choose) -> States:
    """Return the last states of sentences (B,), longest first, each advanced to its end.

    A sentence of n words takes 2n actions. `choose` returns the actions and labels (A,) of the A
    sentences that are not done.
    """
    states = States.of(lengths)
    ends = 2 * lengths
    for step in range(int(ends.max())):
        active = states[: int((ends > step).sum())]
        active.advance(*choose(active))
    return states


class Oracle:
    """The static oracle: the actions that lead to given projective trees (Nivre 2008, section 4)."""

    def __init__(self, heads: Tensor, labels: Tensor) -> None:
        """`heads` are positions (B, N), 0 where there is no word; `labels` (B, N)."""
        self.heads, self.labels = heads, labels
        # Children that each position still waits for.
        self.waiting = torch.zeros_like(heads).scatter_add_(1, heads, torch.ones_like(heads))

    def __call__(self, states: States) -> tuple[Tensor, Tensor]:
        """Return the next action and its label (A,), and note which child is no more waited for."""
        rows = torch.arange(len(states.top), device=states.top.device)
        first, second = states.stacked(2).unbind(1)
        takes_left = (self.heads[rows, second] == first) & (second >= FIRST_WORD)
        takes_right = (
            (self.heads[rows, first] == second) & (second >= ROOT) & (self.waiting[rows, first] == 0)
        )
        action = torch.where(takes_left, LEFT_ARC, torch.where(takes_right, RIGHT_ARC, SHIFT))
        head = torch.where(takes_left, first, second)
        label = self.labels[rows, torch.where(takes_left, second, first)]
        self.waiting[rows, head] -= (action != SHIFT).long()
        return action, label
