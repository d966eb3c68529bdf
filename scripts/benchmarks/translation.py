"""Translation against fairseq itself: `python -m scripts.benchmarks.translation`.

The mini model on Multi30k: the same weights, batches, optimizer and one thread, the two taking turns update
by update in one process. fairseq's side is what `fairseq-train` calls an update (its Trainer.train_step) and
what `fairseq-generate` calls a batch (its task's inference_step and post-processing).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median
from typing import Any

import torch

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Indices, batches_within
from adanorm.fairseq_library import fairseqs_command_line
from adanorm.runs.setup import prepare, start_trainer
from adanorm.tasks.translation import Translation
from adanorm.training.loop import Trainer
from scripts.benchmarks import results
from scripts.benchmarks.memory import peak_mb

NORMS = ("layernorm", "none", "layernorm-simple", "detachnorm", "detach-mean", "detach-var", "adanorm")
ROUNDS, UPDATES, SENTENCES = 7, 60, 200
WARM_UP = 5  # updates that are not counted
DECODED_TOKENS = 12_000  # a batch: what fairseq-generate takes where nothing is said


def main() -> None:
    """Time training and decoding of both, and each norm, and write results/bench/translation.csv."""
    torch.set_num_threads(1)
    experiment = _experiment("layernorm")
    task = Translation(experiment)
    rows = [_training(experiment, task), _memory(), _decoding(experiment, task), *_norms(task)]
    results.write("translation", rows)


def _experiment(norm: str) -> Experiment:
    return compose_experiment(["task=de-en", "scale=mini", f"norm={norm}"])


def _row(
    what: str, unit: str, ours: Sequence[float], other: Sequence[float], *, amount: float
) -> dict[str, Any]:
    """Return speeds, amount over seconds, and the median of the ratios of each round."""
    if len(ours) > ROUNDS:
        ours, other = ours[WARM_UP:], other[WARM_UP:]
    ratios = [theirs / mine for mine, theirs in zip(ours, other, strict=True)]
    speeds = amount / median(ours), amount / median(other)
    print(
        f"{what}: {speeds[0]:,.0f} against {speeds[1]:,.0f} {unit}, ratio {median(ratios):.3f}"
        f" (median of {len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )
    return {
        "what": what,
        "unit": unit,
        "ours": round(speeds[0], 1),
        "other": round(speeds[1], 1),
        "ratio": round(median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "rounds": len(ratios),
    }


def _timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _trainer(experiment: Experiment, task: Translation) -> Trainer:
    return start_trainer(experiment, prepare(experiment, task))


def _train_ours(trainer: Trainer, task: Translation, order: Sequence[Indices]) -> None:
    """Update on each batch, as our loop does; data are collated in this process."""
    pairs = task.corpus.splits["train"]
    for indices in order:
        trainer.update([pairs.batch(indices)])


class _Fairseq:
    """fairseq's own trainer and task around the model that its command line builds."""

    def __init__(self, experiment: Experiment, task: Translation, weights: dict[str, torch.Tensor]) -> None:
        from fairseq import options
        from fairseq import tasks as fairseq_tasks
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf
        from fairseq.trainer import Trainer as FairseqTrainer

        settings, training = experiment.model, experiment.training
        assert settings.name == "fairseq_transformer"
        arguments = [
            str(task.corpus.folder),
            "--arch",
            settings.architecture,
            "--cpu",
            "--share-all-embeddings",
        ]
        for side in ("encoder", "decoder"):
            arguments += [f"--{side}-normalize-before"]
            arguments += [f"--{side}-layers={settings.layers}", f"--{side}-embed-dim={settings.dim}"]
            arguments += [
                f"--{side}-ffn-embed-dim={settings.ffn_dim}",
                f"--{side}-attention-heads={settings.heads}",
            ]
        arguments += [f"--dropout={settings.dropout}", f"--attention-dropout={settings.attention_dropout}"]
        arguments += [
            f"--activation-dropout={settings.activation_dropout}",
            "--criterion=label_smoothed_cross_entropy",
        ]
        arguments += [
            f"--label-smoothing={training.label_smoothing}",
            "--optimizer=adam",
            f"--lr={training.lr}",
        ]
        arguments += [
            "--adam-betas=(0.9,0.98)",
            f"--weight-decay={training.weight_decay}",
            "--max-tokens=1024",
        ]
        arguments += ["--lr-scheduler=inverse_sqrt", f"--warmup-updates={training.warmup_updates}"]
        arguments += [f"--warmup-init-lr={training.warmup_from}"]
        with fairseqs_command_line():
            parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
            config = convert_namespace_to_omegaconf(parsed)
        self.task = fairseq_tasks.setup_task(config.task)
        self.model = self.task.build_model(config.model)
        self.model.load_state_dict(weights)
        self.trainer = FairseqTrainer(
            config, self.task, self.model, self.task.build_criterion(config.criterion)
        )
        self.trainer.begin_epoch(1)
        self._generator: Any = None

    def train(self, dataset: Any, order: Sequence[Indices]) -> None:
        """Update on each batch, as fairseq-train does; data are collated in this process."""
        from fairseq.logging import metrics

        with metrics.aggregate("train_inner"):
            for indices in order:
                self.trainer.train_step([dataset.collater([dataset[int(index)] for index in indices])])

    def generate(self, dataset: Any, chosen: Indices, experiment: Experiment) -> None:
        """Translate sentences as fairseq-generate does."""
        from argparse import Namespace

        from fairseq import utils
        from fairseq.dataclass.configs import GenerationConfig

        decoding = experiment.decoding
        assert decoding is not None
        options = Namespace(**vars(GenerationConfig()))
        options.beam, options.lenpen = decoding.beam, decoding.length_penalty
        options.max_len_a, options.max_len_b = decoding.max_ratio, decoding.max_extra
        self.model.eval()
        if self._generator is None:  # once: the post-processing below adds words to its dictionary
            self._generator = self.task.build_generator([self.model], options)
        batches = dataset.batch_by_size(chosen, max_tokens=DECODED_TOKENS)
        for indices in batches:
            sample = dataset.collater([dataset[int(index)] for index in indices])
            for found in self.task.inference_step(self._generator, [self.model], sample):
                utils.post_process_prediction(
                    hypo_tokens=found[0]["tokens"].int().cpu(),
                    src_str="",
                    alignment=None,
                    align_dict=None,
                    tgt_dict=self.task.target_dictionary,
                    remove_bpe="subword_nmt",
                )
        self.model.train()


def _training(experiment: Experiment, task: Translation) -> dict[str, Any]:
    trainer, batches = _trainer(experiment, task), task.train_batches(0)
    other = _Fairseq(experiment, task, trainer.model.state_dict())
    dataset = task.corpus.splits["train"].dataset
    seconds: dict[str, list[float]] = {"ours": [], "fairseq": []}
    for indices in batches.order[:UPDATES]:
        seconds["fairseq"].append(_timed(lambda i=indices: other.train(dataset, [i])))  # type: ignore[misc]
        seconds["ours"].append(_timed(lambda i=indices: _train_ours(trainer, task, [i])))  # type: ignore[misc]
    return _row("training", "tokens/s", seconds["ours"], seconds["fairseq"], amount=_tokens(task) / UPDATES)


def _tokens(task: Translation) -> int:
    return sum(batch.units for batch in islice(iter(task.train_batches(0)), UPDATES))


def _memory() -> dict[str, Any]:
    """Return the peak memory of a process of each that trains; the ratio is fairseq's over ours."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        peaks = {name: pool.apply(_peak, (name,)) for name in ("ours", "fairseq")}
    ratio = round(peaks["fairseq"] / peaks["ours"], 3)
    print(f"peak memory of training: {peaks['ours']:,.0f} against {peaks['fairseq']:,.0f} MB, ratio {ratio}")
    return {
        "what": "peak memory of training",
        "unit": "MB",
        "ours": round(peaks["ours"], 1),
        "other": round(peaks["fairseq"], 1),
        **dict.fromkeys(("ratio", "lowest", "highest"), ratio),
        "rounds": 1,
    }


def _peak(name: str) -> float:
    torch.set_num_threads(1)
    experiment = _experiment("layernorm")
    task = Translation(experiment)
    trainer, batches = _trainer(experiment, task), task.train_batches(0)
    if name == "ours":
        _train_ours(trainer, task, batches.order[:UPDATES])
    else:
        other = _Fairseq(experiment, task, trainer.model.state_dict())
        other.train(task.corpus.splits["train"].dataset, batches.order[:UPDATES])
    return peak_mb()


def _decoding(experiment: Experiment, task: Translation) -> dict[str, Any]:
    trainer = _trainer(experiment, task)
    model = trainer.model
    # Trained a little, for else it translates everything up to the limit.
    _train_ours(trainer, task, task.train_batches(0).order[:250])
    other = _Fairseq(experiment, task, model.state_dict())
    pairs = task.corpus.splits["test"]
    dataset = pairs.dataset
    chosen = dataset.ordered_indices()[:: len(pairs) // SENTENCES]

    def ours() -> None:
        model.eval()
        for indices in batches_within(chosen, pairs.sizes, DECODED_TOKENS):
            task.translate(model, pairs.sources(indices))

    seconds: dict[str, list[float]] = {"ours": [], "fairseq": []}
    for _ in range(ROUNDS):
        seconds["fairseq"].append(_timed(lambda: other.generate(dataset, chosen, experiment)))
        seconds["ours"].append(_timed(ours))
    return _row("decoding", "sentences/s", seconds["ours"], seconds["fairseq"], amount=len(chosen))


def _norms(task: Translation) -> list[dict[str, Any]]:
    """Return the speed of training under each of the paper's norms against LayerNorm's."""
    trainers = {norm: _trainer(_experiment(norm), task) for norm in NORMS}
    seconds: dict[str, list[float]] = {norm: [] for norm in trainers}
    for round_, indices in enumerate(task.train_batches(0).order[:UPDATES]):
        start = round_ % len(NORMS)  # each goes first in turn: who follows whom shows in the caches
        for norm in NORMS[start:] + NORMS[:start]:
            trainer = trainers[norm]
            seconds[norm].append(_timed(lambda t=trainer, i=indices: _train_ours(t, task, [i])))  # type: ignore[misc]
    amount = _tokens(task) / UPDATES
    return [
        _row(f"{norm} against layernorm", "tokens/s", seconds[norm], seconds["layernorm"], amount=amount)
        for norm in trainers
        if norm != "layernorm"
    ]


if __name__ == "__main__":
    main()
