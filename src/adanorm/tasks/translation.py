"""Translation: fairseq's Transformer on a parallel corpus, scored by BLEU after beam search."""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.config.data_sections import ParallelConfig
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batches, batches_within
from adanorm.data.inspection import Inspection
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.pairs import PairBatch, load_pairs
from adanorm.models.beam_search import beam_search
from adanorm.tasks import Evaluation, ExampleCounts, Loss, Scores, TrainingTask
from adanorm.tasks.bleu import KINDS, bleu, chrf, length_ratio, ngram_counts, sides

LONGEST_WORD = 100  # characters; byte pair encoding takes time with the square of a word's length


class Translation(TrainingTask):
    """Translates sentences; the loss is label-smoothed, in nats per target subword."""

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, ParallelConfig)
        self._data = experiment.data
        if experiment.task.metric == "compound_bleu" and self._data.languages[1] != "de":
            raise ValueError(
                "task.metric=compound_bleu: counts German compounds, so only into German"
            )
        if experiment.decoding is None:
            raise ValueError(
                "decoding: translation needs beam, length_penalty, max_ratio, max_extra"
            )
        fairseq()  # without fairseq this fails before anything is downloaded
        self._decoding = experiment.decoding
        self._smoothing = experiment.training.label_smoothing or 0.0
        self.corpus = load_pairs(experiment.data)
        files, dictionaries = self.corpus.checksums, self.corpus.dictionaries
        super().__init__(
            experiment,
            self.corpus.splits,
            files,
            dictionaries=dictionaries,
        )

    @cached_property
    def inspection(self) -> Inspection:
        """Counts of pairs that are in two splits, are copies, or are too long for a batch."""
        return self.corpus.inspection

    def train_batches(self, epoch: int) -> Batches:
        """Return the shuffled batches of an epoch; their order depends only on seed and epoch."""
        train = self.corpus.splits["train"]
        random = np.random.default_rng((self._seed, epoch))
        return Batches(train.batch, train.order(self._data.batch_tokens, random))

    def loss(self, model: nn.Module, batch: PairBatch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the summed label-smoothed loss in nats, and the number of target subwords."""
        logits = _logits(model, batch)
        smoothing, weight = self._smoothing, batch.weight
        total = label_smoothed_loss(
            logits,
            batch.target,
            smoothing=smoothing,
            weight=weight,
        )
        return Loss(total, batch.units)

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return the loss on `valid`, or the translations of `test` with BLEU, chrF and length.

        If several length penalties are configured, the test uses the first with the best validation
        BLEU.
        """
        if split == "valid":
            return self._losses(model)
        penalties = self._decoding.length_penalties
        if penalties is None:
            return self.score(
                model,
                split,
                length_penalty=self._decoding.length_penalty,
            )

        def valid_bleu(penalty: float) -> float:
            return self.score(
                model,
                "valid",
                length_penalty=penalty,
            ).metrics["bleu"]

        best = max(penalties, key=valid_bleu)
        score = self.score(model, split, length_penalty=best)
        signatures = {**(score.signatures or {}), "length_penalty": f"{best:g}"}
        return score._replace(signatures=signatures)

    def _losses(self, model: nn.Module) -> Evaluation:
        """Return the label-smoothed and the plain validation loss, in nats per target subword."""
        pairs = self.corpus.splits["valid"]
        device = next(model.parameters()).device
        smoothed, plain, units = 0.0, 0.0, 0
        with (
            torch.no_grad()
        ):  # no inference tensors: fairseq keeps the position encodings made here
            for batch in Batches(pairs.batch, pairs.order(self._data.batch_tokens, None)):
                moved = batch.to(device)
                logits = _logits(model, moved)
                smoothed += label_smoothed_loss(
                    logits, moved.target, smoothing=self._smoothing
                ).item()
                plain += label_smoothed_loss(
                    logits,
                    moved.target,
                    smoothing=0.0,
                ).item()
                units += batch.units
        loss = {"loss": smoothed / units, "nll": plain / units}
        return Evaluation(loss | {"perplexity": math.exp(min(loss["nll"], 100))}, [])

    def score(self, model: nn.Module, split: str, *, length_penalty: float) -> Evaluation:
        """Return a split's translations, as words, with their BLEU (%), chrF and length ratio."""
        pairs = self.corpus.splits[split]
        outputs = [""] * len(pairs)
        for indices in pairs.order(self._decoding.batch_tokens, None):
            sources = pairs.sources(indices)
            translations = self.translate(model, sources, length_penalty=length_penalty)
            for index, translation in zip(
                indices,
                translations,
                strict=True,
            ):
                outputs[int(index)] = translation
        texts = self._texts(split, outputs)
        metrics, signatures = {}, {}
        for kind, lines in texts.items():
            metrics[kind], signatures[kind] = bleu(kind, *lines, **self._counting(kind))
        lowercase = self._data.lowercase
        metrics["chrf"], signatures["chrf"] = chrf(*texts["sacrebleu"], lowercase=lowercase)
        metrics["length_ratio"] = length_ratio(*texts["bleu"])
        return Evaluation(metrics, outputs, signatures)

    def baselines(self, split: str) -> Scores:
        """Return the kinds of BLEU (%) of the sources, copied as their own translations."""
        copied = self.corpus.sentences(split, side=0)
        scores = {}
        for kind, lines in self._texts(split, copied).items():
            scores[kind], _ = bleu(kind, *lines, **self._counting(kind))
        return {"copied source": scores}

    def counted(self, outputs: Sequence[str]) -> ExampleCounts:
        """Return the n-gram counts of each test pair for each kind of BLEU."""
        counts: ExampleCounts = {}
        for kind, lines in self._texts("test", list(outputs)).items():
            counts[kind] = ngram_counts(kind, *lines, **self._counting(kind))
        return counts

    def _counting(self, kind: str) -> dict[str, Any]:
        """Return how a kind of BLEU counts; the words of a data-bin keep the case that they have."""
        data = self._data
        is_text = kind == "sacrebleu"
        return {
            "lowercase": data.lowercase and (is_text or data.path is None),
            "language": data.languages[1],
        }

    def _texts(self, split: str, outputs: list[str]) -> dict[str, tuple[list[str], list[str]]]:
        """Return outputs and references by kind of BLEU.

        Compound BLEU splits hyphens, for German alone.
        """
        words, text = self.corpus.beside_references(split, outputs)
        into_german = self._data.languages[1] == "de"
        kinds = [kind for kind in KINDS if kind != "compound_bleu" or into_german]
        return {
            kind: sides(
                kind,
                words,
                text,
            )
            for kind in kinds
        }

    def predict(self, model: nn.Module, entries: Sequence[str], **options: Any) -> list[str]:
        """Return each line's translation as running text, with a line feed.

        Time and memory grow with the square of the length: a line that is longer than those of
        training is translated in pieces.
        """
        pieces = []
        counts = []
        for line in entries:
            line_pieces = self._pieces(line)
            pieces += line_pieces
            counts.append(len(line_pieces))
        words = [""] * len(pieces)
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
        # One length to a batch: the limit of a translation follows the longest source of its batch.
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            for batch in batches_within(alike, lengths, self._decoding.batch_tokens):
                translations = self.translate(model, [pieces[index] for index in batch])
                for index, translation in zip(batch, translations, strict=True):
                    words[index] = translation
        remaining = iter(words)
        texts = []
        for count in counts:
            translation = " ".join(islice(remaining, count))
            texts.append(self.corpus.words[1].join(translation) + "\n")
        return texts

    def _pieces(self, line: str) -> list[Tensor]:
        """Return a line's source ids (S,), with their end, in pieces as long as in training."""
        words = re.sub(rf"\S{{{LONGEST_WORD}}}(?=\S)", r"\g<0> ", line)
        if not words.strip():
            return []
        ids = self.encode(words)
        longest = min(self._data.longest, self._decoding.batch_tokens)
        return [torch.cat([piece, ids[-1:]]) for piece in torch.split(ids[:-1], longest)]

    def encode(self, line: str) -> Tensor:
        """Return the source ids (S,) of a line of text, with the end-of-sentence id."""
        subwords = self.corpus.subwords.split(self.corpus.words[0].split(line))
        ids = self.corpus.dictionaries[0].encode_line(subwords, add_if_not_exist=False)
        return ids.long()

    def translate(
        self, model: nn.Module, sources: list[Tensor], *, length_penalty: float | None = None
    ) -> list[str]:
        """Return the best translation by beam search, as words, of each row of source ids (S,).

        The length penalty is the task's own by default.
        """
        device = next(model.parameters()).device
        dictionary = self.corpus.dictionaries[1]
        padded = (
            fairseq()
            .data.data_utils.collate_tokens(sources, dictionary.pad(), left_pad=True)
            .to(device)
        )
        decoding = self._decoding
        penalty = decoding.length_penalty if length_penalty is None else length_penalty
        longest = int(decoding.max_ratio * padded.shape[1] + decoding.max_extra)
        limit = min(longest, model.max_decoder_positions() - 1)  # type: ignore[operator]
        with torch.no_grad():
            best = beam_search(
                model.eval(), padded, limit, beam=decoding.beam, length_penalty=penalty
            )
        return [self.corpus.words_of(ids.cpu(), side=1) for ids in best]


def _logits(model: nn.Module, batch: PairBatch) -> Tensor:
    """Return the logits (N, V) at the N target subwords, without padding."""
    logits = model(batch.source, batch.previous, batch.counted, has_padding=batch.has_padding)
    return logits.float()


class _LabelSmoothedLoss(torch.autograd.Function):
    """The sum over rows of (1 - e) * -log p[target] + e/V * sum_v -log p[v].

    E counts all V classes. The log-probabilities become the gradient in place: p - e/V, less 1 - e
    at the target. Plain autograd would make and add several tensors of the vocabulary's size.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, weight: Tensor | None, smoothing: float
    ) -> Tensor:
        log_p = torch.log_softmax(logits, 1)
        loss = -(1 - smoothing) * log_p.gather(1, target[:, None])[:, 0]
        if smoothing:
            loss -= smoothing / log_p.shape[1] * log_p.sum(1)
        ctx.save_for_backward(log_p, target, weight)
        ctx.smoothing = smoothing
        return loss.sum() if weight is None else (loss * weight).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        log_p, target, weight = ctx.saved_tensors
        dx = log_p.exp_()
        if ctx.smoothing:
            dx.sub_(ctx.smoothing / dx.shape[1])
        dx.scatter_add_(
            1,
            target[:, None],
            dx.new_full((len(target), 1), ctx.smoothing - 1),
        )
        return dx.mul_(grad if weight is None else grad * weight[:, None]), None, None, None


def label_smoothed_loss(
    logits: Tensor, target: Tensor, *, smoothing: float, weight: Tensor | None = None
) -> Tensor:
    """Return the label-smoothed cross-entropy summed over rows, in nats, as fairseq defines it.

    Logits (N, V), targets (N,); `weight` (N,) multiplies the rows' losses. A share `smoothing` of the
    probability is spread over the other V - 1 classes (Szegedy et al. 2016). The gradient can be taken once.
    """
    classes = logits.shape[1]
    spread = smoothing * classes / (classes - 1)  # its counterpart over all V classes
    return _LabelSmoothedLoss.apply(logits, target, weight, spread)  # type: ignore[no-untyped-call]
