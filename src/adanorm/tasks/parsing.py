"""Dependency parsing: greedy and transition-based, scored by attachment."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.config.data_sections import TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import TransitionParserConfig
from adanorm.data.examples import ArrayExamples, Batches
from adanorm.data.inspection import Inspection
from adanorm.data.treebanks import encoding
from adanorm.data.treebanks.conll import CODE, Sentence, inspect_trees, load_treebank
from adanorm.data.treebanks.encoding import Numbers, Sentences, Vocabulary, read_vectors
from adanorm.data.treebanks.kept import Arrays, folder_for, kept_arrays
from adanorm.data.treebanks.trees import Tree, attachment, is_projective, left_out, projectivized
from adanorm.models import arc_standard
from adanorm.models.arc_standard import FIRST_WORD, LABELLED, WORDS, States
from adanorm.models.norm_sites import PlacedNorms
from adanorm.tasks import ClassTask, Evaluation, ExampleCounts, Scores

EVALUATION_BATCH = 4096  # transitions
PARSING_BATCH = 1024  # sentences
MANY = 50_000  # words of a split: the transitions of fewer are made in a fraction of a second


class Parsing(ClassTask):
    """Predicts the next transition.

    Loss in nats per transition, score in % of words with the right head.
    """

    def __init__(self, experiment: Experiment) -> None:
        data = experiment.data
        assert isinstance(data, TreebankConfig), "the configuration pairs models and readers"
        self._data = data
        self.trees, checksums = load_treebank(data)
        self._treebank_files = dict(checksums)
        vocabulary = Vocabulary.of(
            self.trees["train"], lowercase=data.lowercase, min_count=data.min_count
        )
        self.vocabulary = vocabulary
        super().__init__(
            experiment,
            self.trees,
            checksums,
            vocabulary=len(vocabulary),
            features=width(vocabulary),
            actions=1 + 2 * vocabulary.kinds,
        )
        metric = experiment.task.metric
        if metric.startswith("las") and not vocabulary.labels:
            raise ValueError(f"task.metric={metric}: the training trees have no labels")
        self._vectors: dict[int, Tensor] = {}
        for path in data.local_files().get("vectors", []):
            assert isinstance(self._model, TransitionParserConfig)
            dim = self._model.embedding_dim
            self._vectors, checksum = read_vectors(
                path,
                vocabulary.word_ids,
                dim,
            )
            self.checksums[f"vectors/{path.name}"] = checksum
        for split in ("valid", "test"):
            if all(all(left_out(tree, data.scoring)) for tree in self.trees[split]):
                raise ValueError(
                    f"{split}: data.scoring={data.scoring} leaves out every word as punctuation:"
                    " nothing is left to score"
                )

    @cached_property
    def _oracle_steps(self) -> dict[str, tuple[ArrayExamples, dict[str, int]]]:
        """The oracle's transitions by split, and counts.

        Computed on demand, as parsing needs none. Those of a large treebank are kept.
        """
        return {split: self._transitions_of(split) for split in ("train", "valid")}

    @cached_property
    def examples(self) -> dict[str, ArrayExamples]:
        """The oracle's transitions for training and validation."""
        return {split: examples for split, (examples, _) in self._oracle_steps.items()}

    @cached_property
    def inspection(self) -> Inspection:
        """Counts of shared and copied sentences, labels, trees without transitions, known vectors."""
        counts, warnings = inspect_trees(self.trees)
        for split, (_, of_transitions) in self._oracle_steps.items():
            counts[split] = of_transitions
        if self._vectors:
            words = self.vocabulary.words
            counts["vectors"] = {"words": len(words), "found": len(self._vectors)}
        return Inspection(counts, warnings)

    def _transitions_of(self, split: str) -> tuple[ArrayExamples, dict[str, int]]:
        trees, lifts = self.trees[split], self._lifts(split)
        words = sum(map(len, trees))
        if words < MANY:
            steps = self._steps(split)
        else:
            steps = kept_arrays(self._folder(split), partial(self._steps, split))
        examples = ArrayExamples(
            torch.from_numpy(steps["inputs"]),
            torch.from_numpy(steps["targets"]),
            self._data.batch_size,
        )
        crossing = len(trees) - int(steps["projective"].sum())
        return examples, {
            "sentences": len(trees),
            "words": words,
            "non_projective": crossing,
            "without_transitions": 0 if lifts else crossing,
            "transitions": len(examples),
        }

    def _lifts(self, split: str) -> bool:
        return split == "train" and self._data.non_projective == "projectivize"

    def _steps(self, split: str) -> Arrays:
        """Return the oracle's inputs and targets, and which trees of a split are projective."""
        learned, projective = [], []
        for tree in self.trees[split]:
            projective.append(is_projective(tree.heads))
            if projective[-1]:
                learned.append(tree)
            elif self._lifts(split):
                learned.append(projectivized(tree))
        if not learned:
            raise ValueError(f"{split}: no tree is projective, so there is nothing to learn from")
        examples = transitions(
            learned,
            self.vocabulary,
            self._data.batch_size,
        )
        return {
            "inputs": examples.inputs.numpy(),
            "targets": examples.targets.numpy(),
            "projective": np.array(projective, np.int8),
        }

    def _folder(self, split: str) -> Path:
        """Return where the transitions of a large split are kept, named by all that decides them."""
        settings = {"tags", "fold", "lowercase", "min_count", "non_projective"}
        identity = {
            "split": split,
            "files": self._treebank_files,
            **self._data.model_dump(include=settings),
        }
        code = [*CODE, *map(Path, (encoding.__file__, arc_standard.__file__, __file__))]
        return folder_for(
            self._data,
            "transitions",
            identity,
            code,
        )

    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the configured classifier.

        Its embeddings start from word vectors if there are any.
        """
        model = super().build_model(make_norm)
        with torch.no_grad():
            for index, vector in self._vectors.items():
                model.get_parameter("embedding.weight")[index] = vector
        return model

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return attachment scores (%), and one line of `head` or `head:label` per sentence.

        On `valid` the metrics include the loss in nats per transition, over the trees that have
        transitions.
        """
        parsed = self.parse(model, self.trees[split])
        metrics, signatures = attachment(
            self.trees[split],
            parsed,
            self._data.scoring,
        )
        if split == "valid":
            metrics["loss"] = self._loss(model, self.examples[split])
        outputs = []
        for heads, labels in parsed:
            words = map(_arc, heads, labels)
            outputs.append(" ".join(words))
        return Evaluation(metrics, outputs, signatures)

    def _loss(self, model: nn.Module, examples: ArrayExamples) -> float:
        device = next(model.parameters()).device
        order = replace(examples, batch_size=EVALUATION_BATCH).order(None)
        total = 0.0
        with torch.inference_mode():
            for batch in Batches(examples.batch, order):
                total += self.loss(model, batch.to(device)).total.double().item()
        return total / len(examples)

    def parse(self, model: nn.Module, trees: Sequence[Tree]) -> list[tuple[list[int], list[str]]]:
        """Return heads (words count from 1, 0 is the root) and labels of each sentence.

        `_` is no label.
        """
        names = ("", *(self.vocabulary.labels or ("_",)))
        parsed = []
        for start in range(0, len(trees), PARSING_BATCH):
            batch = trees[start : start + PARSING_BATCH]
            states = greedy(
                model,
                self.vocabulary.encode(batch),
                self.vocabulary,
            )
            for first, end in itertools.pairwise(states.starts.tolist()):
                words = slice(first + FIRST_WORD, end)
                labels = [names[label] for label in states.labels[words].tolist()]
                parsed.append(((states.heads[words] - 1).tolist(), labels))
        return parsed

    def predict(self, model: nn.Module, entries: Sequence[Sentence], **options: Any) -> list[str]:
        """Return the lines of each sentence with its heads and labels."""
        parses = iter(self.parse(model, [sentence.tree for sentence in entries if sentence.rows]))
        texts = []
        for sentence in entries:
            heads, labels = next(parses) if sentence.rows else ([], [])
            texts.append(sentence.parsed(heads, labels))
        return texts

    def baselines(self, split: str) -> Scores:
        """Return attachment scores (%) of words under a neighbor, and an end under the root."""
        trees = self.trees[split]
        left, right = [], []
        for tree in trees:
            count = len(tree)
            no_labels = ["_"] * count
            left.append(([*range(count)], no_labels))
            right.append(([*range(2, count + 1), 0], no_labels))
        scores = {}
        for name, parses in {"left neighbor": left, "right neighbor": right}.items():
            scores[name], _ = attachment(
                trees,
                parses,
                self._data.scoring,
            )
        return scores

    def counted(self, outputs: Sequence[str]) -> ExampleCounts:
        """Return for each test sentence how many heads are right, and how many words are scored."""
        rows = []
        for tree, line in zip(
            self.trees["test"],
            outputs,
            strict=True,
        ):
            right = scored = 0
            are_out = left_out(tree, self._data.scoring)
            for head, arc, is_out in zip(
                tree.heads,
                line.split(" "),
                are_out,
                strict=True,
            ):
                if not is_out:
                    scored += 1
                    right += head == int(arc.partition(":")[0])
            rows.append([right, scored])
        return {"uas": rows}


def _arc(head: int, label: str) -> str:
    return str(head) if label == "_" else f"{head}:{label}"


def transitions(trees: Sequence[Tree], vocabulary: Vocabulary, batch_size: int) -> ArrayExamples:
    """Return the features and action of each step of the static oracle, for projective trees."""
    count = 2 * sum(map(len, trees))
    inputs = np.empty((count, width(vocabulary)), np.int32)
    targets = np.empty(count, np.int16)
    sentences = vocabulary.encode(trees)
    arc_standard.follow(
        arc_standard.first_states(sentences.starts),
        sentences,
        vocabulary.gold(trees),
        vocabulary.kinds,
        vocabulary.first_label,
        (inputs, targets),
    )
    return ArrayExamples(
        torch.from_numpy(inputs),
        torch.from_numpy(targets),
        batch_size,
    )


def greedy(model: nn.Module, sentences: Sentences, vocabulary: Vocabulary) -> States:
    """Return the final states of sentences, each step by the likeliest allowed action."""
    device = next(model.parameters()).device
    states = arc_standard.first_states(sentences.starts)
    unfinished: Numbers = np.arange(len(states.front))
    with torch.inference_mode():
        while len(unfinished):
            ids = np.empty((len(unfinished), width(vocabulary)), np.int32)
            arc_standard.write_features_of(
                states, unfinished, sentences, vocabulary.first_label, ids
            )
            scores = model(torch.from_numpy(ids).to(device)).float().cpu().numpy()
            unfinished = arc_standard.advance_best(
                states,
                unfinished,
                scores,
                vocabulary.kinds,
            )
    return states


def width(vocabulary: Vocabulary) -> int:
    """Return the number of features: 48, or 36 for trees without labels."""
    return 2 * WORDS + (LABELLED if vocabulary.labels else 0)
