"""Compare norms by their scores over seeds, on record or your own, and judge the paper's claims."""

from adanorm.stats.comparison import ASSUMPTIONS, Comparison, compare
from adanorm.stats.conjunction import League, in_family, league, pooled
from adanorm.stats.example_noise import example_error, example_noise
from adanorm.stats.sequential import Looks
from adanorm.stats.summary import multiple_of, posterior, random_effects

__all__ = [
    "ASSUMPTIONS",
    "Comparison",
    "League",
    "Looks",
    "compare",
    "example_error",
    "example_noise",
    "in_family",
    "league",
    "multiple_of",
    "pooled",
    "posterior",
    "random_effects",
]
