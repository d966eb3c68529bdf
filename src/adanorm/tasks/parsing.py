"""Dependency parsing: greedy, transition by transition, scored by attachment."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.data_sections import TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import TransitionParserConfig
from adanorm.data.examples import ArrayExamples, Batch, Batches
from adanorm.data.inspection import Inspection
from adanorm.data.treebanks.conll import inspect_trees, load_treebank
from adanorm.data.treebanks.encoding import Numbers, Sentences, Vocabulary, read_vectors
from adanorm.data.treebanks.trees import Tree, attachment, is_projective, left_out, projectivized
from adanorm.models import arc_standard
from adanorm.models.arc_standard import FIRST_WORD, LABELLED, WORDS, States
from adanorm.models.norm_sites import PlacedNorms
from adanorm.tasks.base import Evaluation, Loss, TrainingTask

EVALUATED = 4096  # transitions at a time
TOGETHER = 1024  # sentences parsed at a time


class Parsing(TrainingTask):
    """The next transition; loss in nats a transition, score in % of words with the right head."""

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, TreebankConfig), "the configuration pairs models and readers"
        self._data = experiment.data
        self.trees, checksums = load_treebank(experiment.data)
        self.vocabulary = vocabulary = Vocabulary.of(
            self.trees["train"], lowercase=self._data.lowercase, min_count=self._data.min_count
        )
        sizes = {"vocabulary": len(vocabulary), "features": width(vocabulary)}
        super().__init__(experiment, self.trees, checksums, **sizes, actions=1 + 2 * vocabulary.kinds)
        if experiment.task.metric.startswith("las") and not self.vocabulary.labels:
            raise ValueError(f"task.metric={experiment.task.metric}: the training trees have no labels")
        self._vectors: dict[int, Tensor] = {}
        for path in self._data.local_files().get("vectors", []):
            assert isinstance(self._model, TransitionParserConfig)
            digest, dim = hashlib.sha256(), self._model.embedding_dim
            self._vectors = read_vectors(path, self.vocabulary.word_ids, dim, digest.update)
            self.checksums[f"vectors/{path.name}"] = digest.hexdigest()
        for split in ("valid", "test"):
            if all(all(left_out(tree, self._data.scoring)) for tree in self.trees[split]):
                raise ValueError(
                    f"{split}: data.scoring={self._data.scoring} leaves out every word as punctuation:"
                    " nothing is left to score"
                )

    @cached_property
    def _followed(self) -> dict[str, tuple[ArrayExamples, dict[str, int]]]:
        """The oracle's transitions by split, and counts; made when asked for: parsing needs none."""
        return {split: self._transitions_of(split) for split in ("train", "valid")}

    @cached_property
    def examples(self) -> dict[str, ArrayExamples]:
        """The transitions of the oracle in training and validation."""
        return {split: examples for split, (examples, _) in self._followed.items()}

    @cached_property
    def inspection(self) -> Inspection:
        """Sentences in two splits, copies, labels that training lacks, trees without transitions."""
        found = inspect_trees(self.trees)
        counts = {split: counts for split, (_, counts) in self._followed.items()}
        if self._vectors:
            counts["vectors"] = {"words": len(self.vocabulary.words), "found": len(self._vectors)}
        return Inspection({**found.counts, **counts}, found.warnings)

    def _transitions_of(self, split: str) -> tuple[ArrayExamples, dict[str, int]]:
        trees = self.trees[split]
        projective = [is_projective(tree.heads) for tree in trees]
        lifts = split == "train" and self._data.non_projective == "projectivize"
        both = zip(trees, projective, strict=True)
        followed = [tree if good else projectivized(tree) for tree, good in both if good or lifts]
        if not followed:
            raise ValueError(f"{split}: no tree is projective, so there is nothing to learn from")
        examples = transitions(followed, self.vocabulary, self._data.batch_size)
        return examples, {
            "sentences": len(trees),
            "words": sum(map(len, trees)),
            "non_projective": projective.count(False),
            "without_transitions": len(trees) - len(followed),
            "transitions": len(examples),
        }

    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the classifier that the configuration describes, on given word vectors if there are."""
        model = super().build_model(make_norm)
        with torch.no_grad():
            for index, vector in self._vectors.items():
                model.get_parameter("embedding.weight")[index] = vector
        return model

    def loss(self, model: nn.Module, batch: Batch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the cross-entropy summed over transitions in nats, and their number."""
        logits = model(batch.inputs).float()
        return Loss(F.cross_entropy(logits, batch.targets.long(), reduction="sum"), len(batch.targets))

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return attachment scores (%), and the predicted heads of each sentence, `head` or `head:label`.

        On validation also the loss in nats a transition, over the trees that have transitions.
        """
        parsed = self.parse(model, self.trees[split])
        metrics, signatures = attachment(self.trees[split], parsed, self._data.scoring)
        if split == "valid":
            metrics["loss"] = self._loss(model, self.examples[split])
        outputs = []
        for arcs in parsed:
            words = (str(h) if label == "_" else f"{h}:{label}" for h, label in zip(*arcs, strict=True))
            outputs.append(" ".join(words))
        return Evaluation(metrics, outputs, signatures)

    def _loss(self, model: nn.Module, examples: ArrayExamples) -> float:
        device = next(model.parameters()).device
        total = 0.0
        with torch.inference_mode():
            for batch in Batches(examples.batch, replace(examples, batch_size=EVALUATED).order(None)):
                total += self.loss(model, batch.to(device)).total.double().item()
        return total / len(examples)

    def parse(self, model: nn.Module, trees: Sequence[Tree]) -> list[tuple[list[int], list[str]]]:
        """Return heads, counted from 1 with 0 for the root, and labels of sentences, `_` without any."""
        names = ("", *(self.vocabulary.labels or ("_",)))
        parsed: list[tuple[list[int], list[str]]] = []
        for start in range(0, len(trees), TOGETHER):
            chosen = trees[start : start + TOGETHER]
            states = greedy(model, self.vocabulary.encode(chosen), self.vocabulary)
            for first, end in itertools.pairwise(states.starts.tolist()):
                words = slice(first + FIRST_WORD, end)
                labels = [names[label] for label in states.labels[words].tolist()]
                parsed.append(((states.heads[words] - 1).tolist(), labels))
        return parsed

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return attachment scores (%) of every word under its neighbor, the outermost under the root."""
        trees = self.trees[split]
        left = [([*range(len(tree))], ["_"] * len(tree)) for tree in trees]
        right = [([*range(2, len(tree) + 1), 0], ["_"] * len(tree)) for tree in trees]
        sides = {"left neighbor": left, "right neighbor": right}
        return {name: attachment(trees, arcs, self._data.scoring)[0] for name, arcs in sides.items()}

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return the right heads of each test sentence and the words that count."""
        rows = []
        for tree, line in zip(self.trees["test"], outputs, strict=True):
            arcs = zip(tree.heads, line.split(" "), left_out(tree, self._data.scoring), strict=True)
            right = [head == int(arc.partition(":")[0]) for head, arc, out in arcs if not out]
            rows.append([sum(right), len(right)])
        return {"uas": rows}


def transitions(trees: Sequence[Tree], vocabulary: Vocabulary, batch_size: int) -> ArrayExamples:
    """Return features and action of every step of the static oracle over projective trees, in order."""
    count = 2 * sum(map(len, trees))
    inputs, targets = np.empty((count, width(vocabulary)), np.int32), np.empty(count, np.int16)
    sentences = vocabulary.encode(trees)
    states = arc_standard.first_states(sentences.starts)
    gold = vocabulary.gold(trees)
    kinds, first_label = vocabulary.kinds, vocabulary.first_label
    arc_standard.follow(states, sentences, gold, kinds, first_label, (inputs, targets))
    return ArrayExamples(torch.from_numpy(inputs), torch.from_numpy(targets), batch_size)


def greedy(model: nn.Module, sentences: Sentences, vocabulary: Vocabulary) -> States:
    """Return the last states of sentences, all advanced together by the likeliest allowed action."""
    device = next(model.parameters()).device
    states = arc_standard.first_states(sentences.starts)
    going: Numbers = np.arange(len(states.front))
    with torch.inference_mode():
        while len(going):
            ids = np.empty((len(going), width(vocabulary)), np.int32)
            arc_standard.write_features_of(states, going, sentences, vocabulary.first_label, ids)
            scores = model(torch.from_numpy(ids).to(device)).float().cpu().numpy()
            going = arc_standard.advance_best(states, going, scores, vocabulary.kinds)
    return states


def width(vocabulary: Vocabulary) -> int:
    """Return the number of features: 48, or 36 where there are no labels."""
    return 2 * WORDS + (LABELLED if vocabulary.labels else 0)
