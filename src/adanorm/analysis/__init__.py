"""What the analyses observe, one file each; torch is needed here and not where records are shown."""

from adanorm.analysis import gradients
from adanorm.analysis.along_training import Make, along_training

# What makes the record of each analysis of conf/analysis.
ANALYSES: dict[str, Make] = {
    "gradients": along_training(gradients.observe),
}
