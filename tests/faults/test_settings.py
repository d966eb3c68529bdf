"""Settings that nothing reads."""

import pytest

from adanorm.config.compose import compose_experiment, compose_values
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.config.readers import READERS

OTHER = {  # a good value of a setting that has a reader, which no file has
    "training.label_smoothing": "0.03", "training.warmup_from": "1e-5", "training.betas": "[0.7,0.8]",
    "training.eps": "1e-5", "training.momentum": "0.3", "norm.numerics": "released",
    "norm.placement": "final",
    "norm.params.positions": "77", "norm.params.zero_centered": "true", "model.post_layers": "1",
    "model.dim": "48", "model.hidden_dropout": "0.37", "data.normalize": "true", "data.clean": "subwords",
    "data.longest": "77", "data.ratio": "3.3", "data.bpe_merges": "77", "data.dictionary_size": "777",
    "data.train_pairs": "77", "data.valid_every": "7", "data.conversion": "mine", "data.tags": "upos",
    "data.fold": "2", "decoding.length_penalty": "0.77",
}  # fmt: skip
VARIANTS = (
    "", "training.optimizer=sgd", "training.schedule=inverse_sqrt training.warmup_updates=0",
    "model.norm_position=sandwich", "model.layers=1", "data.path=somewhere",
    "decoding.length_penalties=[0.6,1]",
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("task", choices("task"))
def test_no_setting_makes_another_digest_of_a_run_that_does_not_read_it(task: str, variant: str) -> None:
    """Each is another experiment or a line that names who reads it, under every norm."""
    values = compose_values([f"task={task}"])
    keys = [(key, is_read) for settings, _, is_read in READERS for key in settings.split() if key in OTHER]
    keys = [(key, is_read) for key, is_read in keys if values.get(key.partition(".")[0]) is not None]
    for norm in choices("norm") if not variant else ("layernorm", "adanorm"):
        base = [f"task={task}", f"norm={norm}", "scale=smoke", *(f"++{word}" for word in variant.split())]
        plain = composed(base)
        if isinstance(plain, str):
            continue  # a variant of other models
        for key, is_read in keys:
            if f"{key}=" in variant:
                continue
            other = composed([*base, f"++{key}={OTHER[key]}"])
            if isinstance(other, Experiment):
                assert is_read(other), (norm, key)
            else:
                assert "\n" not in other
                assert is_read(plain) or key in other, (norm, key, other)


def composed(overrides: list[str]) -> Experiment | str:
    """Return the experiment, or the line that refuses it."""
    try:
        return compose_experiment(overrides)
    except ValueError as error:
        return str(error)
