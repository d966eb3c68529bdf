"""Dependency parsing: greedy, transition by transition, scored by attachment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.attachment import attachment
from adanorm.config import Experiment
from adanorm.data import tree_encoding, treebanks
from adanorm.data.examples import ArrayExamples, Batch, Batches
from adanorm.data.tree_encoding import Sentences, Vocabulary, longest_first
from adanorm.data.trees import Tree, is_projective, projectivized
from adanorm.data_sections import SPLITS, Treebank
from adanorm.model_sections import TransitionParser as TransitionParserSection
from adanorm.models import transition_parser
from adanorm.models.arc_standard import LABELLED, LEFT_ARC, ROOT, SHIFT, WORDS, Oracle, States, derive
from adanorm.models.norm_sites import PlacedNorms
from adanorm.tasks.base import Evaluation, Loss, TrainingTask

EVALUATED = 4096  # transitions at a time


class Parsing(TrainingTask):
    """The next transition; loss in nats a transition, score in % of words with the right head."""

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, Treebank), "the configuration pairs models and readers"
        self._data, self._model, self._seed = experiment.data, experiment.model, experiment.seed
        self.trees, self.checksums = treebanks.load(experiment.data)
        self.sizes = {split: len(self.trees[split]) for split in SPLITS}
        self.vocabulary = Vocabulary.of(
            self.trees["train"], lowercase=self._data.lowercase, min_count=self._data.min_count
        )
        self._vectors: dict[int, Tensor] = {}
        if "vectors" in (local := self._data.local_files()):
            assert isinstance(self._model, TransitionParserSection)
            path = local["vectors"][0]
            self._vectors = tree_encoding.read_vectors(
                path, self.vocabulary.word_ids, self._model.embedding_dim
            )
            self.prepared = {"vectors": {"words": len(self.vocabulary.words), "found": len(self._vectors)}}
        self.examples = {split: self._examples(split) for split in ("train", "valid")}

    def _examples(self, split: str) -> ArrayExamples:
        """Return the transitions of the oracle, and count what it has none for."""
        trees = self.trees[split]
        followed = [tree for tree in trees if is_projective(tree.heads)]
        crossing = len(trees) - len(followed)
        if crossing and split == "train" and self._data.non_projective == "projectivize":
            followed = [t if is_projective(t.heads) else projectivized(t) for t in trees]
        if not followed:
            raise ValueError(f"{split}: no tree is projective, so there is nothing to learn from")
        examples = transitions(followed, self.vocabulary, self._data.batch_size)
        self.prepared = {
            **self.prepared,
            split: {
                "sentences": len(trees),
                "words": sum(map(len, trees)),
                "non_projective": crossing,
                "without_transitions": len(trees) - len(followed),
                "transitions": len(examples),
            },
        }
        return examples

    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the classifier that the configuration describes, on given word vectors if there are."""
        assert isinstance(self._model, TransitionParserSection)
        model = transition_parser.TransitionParser(
            make_norm,
            vocabulary=len(self.vocabulary),
            features=2 * WORDS + (LABELLED if self.vocabulary.labels else 0),
            actions=1 + 2 * max(1, len(self.vocabulary.labels)),
            **self._model.model_dump(exclude={"name"}),
        )
        with torch.no_grad():
            for index, vector in self._vectors.items():
                model.embedding.weight[index] = vector
        return model

    def train_batches(self, epoch: int) -> Batches[Batch]:
        """Return the shuffled transitions of an epoch; the order depends on seed and epoch alone."""
        train = self.examples["train"]
        return Batches(train, train.order(np.random.default_rng((self._seed, epoch))))

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Return the cross-entropy summed over transitions in nats, and their number."""
        logits = model(batch.inputs)
        return Loss(
            F.cross_entropy(logits.float(), batch.targets.long(), reduction="sum"), len(batch.targets)
        )

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return attachment scores (%), and the predicted heads of each sentence, `head` or `head:label`.

        On validation also the loss in nats a transition, over the trees that have transitions.
        """
        parsed = self.parse(model, self.trees[split])
        scores = attachment(self.trees[split], parsed, self._data.scoring)
        metrics = dict(scores.metrics)
        if split in self.examples:
            metrics["loss"] = self._loss(model, self.examples[split])
        outputs = [" ".join(_arc(*arc) for arc in zip(*sentence, strict=True)) for sentence in parsed]
        return Evaluation(metrics, outputs, scores.signatures)

    def _loss(self, model: nn.Module, examples: ArrayExamples) -> float:
        device = next(model.parameters()).device
        total = 0.0
        with torch.inference_mode():
            for start in range(0, len(examples), EVALUATED):
                batch = examples.batch(np.arange(start, min(start + EVALUATED, len(examples)))).to(device)
                total += self.loss(model, batch).total.double().item()
        return total / len(examples)

    def parse(self, model: nn.Module, trees: Sequence[Tree]) -> list[tuple[list[int], list[str]]]:
        """Return heads, counted from 1 with 0 for the root, and labels of sentences.

        The trees' own heads are not looked at. Without labels in training every label is `_`.
        """
        device = next(model.parameters()).device
        names = ("", *(self.vocabulary.labels or ("_",)))
        parsed: list[tuple[list[int], list[str]]] = [([], [])] * len(trees)
        with torch.inference_mode():
            for indices in longest_first(trees):
                sentences = self.vocabulary.encode([trees[index] for index in indices]).to(device)
                states = derive(sentences.lengths, Greedy(model, sentences, self.vocabulary))
                for index, heads, labels in zip(
                    indices, states.heads.tolist(), states.labels.tolist(), strict=True
                ):
                    inside = slice(2, 2 + len(trees[index]))
                    numbers = [head - ROOT for head in heads[inside]]
                    parsed[index] = numbers, [names[label] for label in labels[inside]]
        return parsed


def _arc(head: int, label: str) -> str:
    return str(head) if label == "_" else f"{head}:{label}"


def features(states: States, sentences: Sentences, vocabulary: Vocabulary) -> Tensor:
    """Return the ids of the words, tags and, if there are any, labels that states are told by, (A, F)."""
    positions = states.positions()
    active = len(positions)
    parts = [part[:active].gather(1, positions) for part in (sentences.words, sentences.tags)]
    if vocabulary.labels:
        parts.append(states.labels.gather(1, positions[:, -LABELLED:]) + vocabulary.first_label)
    return torch.cat(parts, 1)


def transitions(trees: Sequence[Tree], vocabulary: Vocabulary, batch_size: int) -> ArrayExamples:
    """Return features and action of every step of the static oracle over projective trees.

    Action 0 is shift, then come a left-arc a label and a right-arc a label.
    """
    count = 2 * sum(map(len, trees))
    width = 2 * WORDS + (LABELLED if vocabulary.labels else 0)
    inputs, targets = torch.empty(count, width, dtype=torch.int32), torch.empty(count, dtype=torch.int16)
    start = 0
    for ids, actions in _steps(trees, vocabulary):
        rows = slice(start, start + len(actions))
        inputs[rows], targets[rows] = ids, actions
        start = rows.stop
    return ArrayExamples(inputs, targets, batch_size)


def _steps(trees: Sequence[Tree], vocabulary: Vocabulary) -> Iterator[tuple[Tensor, Tensor]]:
    kinds = max(1, len(vocabulary.labels))
    for indices in longest_first(trees):
        chosen = [trees[index] for index in indices]
        sentences, oracle = vocabulary.encode(chosen), Oracle(*vocabulary.gold(chosen))
        steps: list[tuple[Tensor, Tensor]] = []

        def follow(
            states: States, *, sentences: Sentences = sentences, oracle: Oracle = oracle
        ) -> tuple[Tensor, Tensor]:
            action, label = oracle(states)
            arc = label + (action - LEFT_ARC) * kinds
            steps.append((features(states, sentences, vocabulary), torch.where(action == SHIFT, 0, arc)))  # noqa: B023
            return action, label

        derive(sentences.lengths, follow)
        yield from steps


class Greedy:
    """The likeliest allowed action of each sentence."""

    def __init__(self, model: nn.Module, sentences: Sentences, vocabulary: Vocabulary) -> None:
        self.model, self.sentences, self.vocabulary = model, sentences, vocabulary
        kinds = max(1, len(vocabulary.labels))
        # Which of shift, left-arc and right-arc each action is, and with which label.
        device = sentences.lengths.device
        self.kind = torch.tensor([SHIFT, *[1] * kinds, *[2] * kinds], device=device)
        self.label = torch.tensor([0, *range(1, kinds + 1), *range(1, kinds + 1)], device=device)

    def __call__(self, states: States) -> tuple[Tensor, Tensor]:
        """Return actions and labels (A,)."""
        logits = self.model(features(states, self.sentences, self.vocabulary)).float()
        best = logits.masked_fill(~states.allowed()[:, self.kind], -torch.inf).argmax(1)
        return self.kind[best], self.label[best]
