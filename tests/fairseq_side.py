"""fairseq's own training and decoding, set up as by its command line, to compare translation with."""

import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hydra
import torch
from hydra.core.config_store import ConfigStore

from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import FairseqTransformerConfig
from adanorm.data.examples import Indices
from adanorm.data.translation import fairseq_library
from adanorm.tasks.translation import Translation

DECODED_TOKENS = 12_000  # per batch, the default of fairseq-generate


@contextmanager
def _command_line() -> Iterator[None]:
    """Put fairseq's registry and its version of Hydra's rules in place during a block."""
    fairseq_library.fairseq()
    store = ConfigStore.instance()
    ours = store.repo
    # Hydra's plugins register at its first use, be that before fairseq's import or after it.
    store.repo = {**fairseq_library.registries[0], "hydra": ours["hydra"]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from Hydra, about fairseq's older usage
            hydra.version.setbase("1.1")
            yield
    finally:
        store.repo = ours
        hydra.version.setbase("1.3")


class FairseqSide:
    """fairseq's trainer and task around the model that its command line builds."""

    def __init__(
        self,
        experiment: Experiment,
        task: Translation,
        weights: dict[str, torch.Tensor] | None = None,
    ) -> None:
        from fairseq import options
        from fairseq import tasks as fairseq_tasks
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf
        from fairseq.trainer import Trainer as FairseqTrainer

        with _command_line():
            arguments = [str(task.corpus.folder), *training_arguments(experiment)]
            parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
            config = convert_namespace_to_omegaconf(parsed)
        self.task = fairseq_tasks.setup_task(config.task)
        self.model = self.task.build_model(config.model)
        if weights is not None:
            self.model.load_state_dict(weights)
        criterion = self.task.build_criterion(config.criterion)
        self.trainer = FairseqTrainer(
            config,
            self.task,
            self.model,
            criterion,
        )
        self.trainer.begin_epoch(1)
        self._generator: Any = None

    def train(self, dataset: Any, order: Sequence[Indices]) -> None:
        """Update on each batch, as fairseq-train does; data are collated in this process."""
        from fairseq.logging import metrics

        with metrics.aggregate("train_inner"):
            for indices in order:
                self.trainer.train_step(
                    [dataset.collater([dataset[int(index)] for index in indices])]
                )

    def generate(self, dataset: Any, chosen: Indices, experiment: Experiment) -> dict[int, str]:
        """Return the translations of sentences by their numbers, made as fairseq-generate does."""
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
        translations: dict[int, str] = {}
        for indices in dataset.batch_by_size(chosen, max_tokens=DECODED_TOKENS):
            sample = dataset.collater([dataset[int(index)] for index in indices])
            hypotheses = self.task.inference_step(self._generator, [self.model], sample)
            for number, beam in zip(sample["id"].tolist(), hypotheses, strict=True):
                ids, dictionary = beam[0]["tokens"].int().cpu(), self.task.target_dictionary
                _, translations[number], _ = utils.post_process_prediction(
                    ids, "", None, None, dictionary, remove_bpe="subword_nmt"
                )
        self.model.train()
        return translations


def training_arguments(experiment: Experiment) -> list[str]:
    """Return fairseq-train's arguments, data aside, for the model and optimizer of an experiment."""
    settings, training = experiment.model, experiment.training
    assert isinstance(settings, FairseqTransformerConfig)
    options = {
        "arch": settings.architecture, "criterion": "label_smoothed_cross_entropy", "optimizer": "adam",
        "lr-scheduler": "inverse_sqrt", "max-tokens": 1024, "lr": training.lr,
        "adam-betas": tuple(training.betas), "label-smoothing": training.label_smoothing,
        "weight-decay": training.weight_decay, "warmup-updates": training.warmup_updates,
        "warmup-init-lr": training.warmup_from, "dropout": settings.dropout,
        "attention-dropout": settings.attention_dropout, "activation-dropout": settings.activation_dropout,
    }  # fmt: skip
    sizes = {
        "layers": settings.layers,
        "embed-dim": settings.dim,
        "ffn-embed-dim": settings.ffn_dim,
    }
    sizes["attention-heads"] = settings.heads
    switches = ["--cpu", "--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        options |= {f"{side}-{name}": size for name, size in sizes.items()}
        switches.append(f"--{side}-normalize-before")
    return [*switches, *(f"--{name}={value}" for name, value in options.items())]
