"""What the analyses observe, one file each; torch is needed here and not where records are shown."""

from collections.abc import Callable
from functools import partial

from adanorm.analyses.along_training import along_training
from adanorm.analyses.observers import (
    activations,
    covariate_shift,
    gradients,
    invariance,
    landscape,
    layer_gradients,
    noisy_batchnorm,
    time_steps,
)
from adanorm.analyses.spec import AnalysisRecord
from adanorm.analyses.step import Observe

# Analyses of runs, seen as they train.
OBSERVERS: dict[str, Observe] = {
    "activations": activations.observe,
    "covariate-shift": covariate_shift.observe,
    "gradients": gradients.observe,
    "landscape": landscape.observe,
    "layer-gradients": layer_gradients.observe,
    "noisy-batchnorm": noisy_batchnorm.observe,
    "time-steps": time_steps.observe,
}

# What makes the record of each analysis of conf/analysis.
ANALYSES: dict[str, Callable[[AnalysisRecord], None]] = {
    **{name: partial(along_training, observe) for name, observe in OBSERVERS.items()},
    "invariance": invariance.make,
}
