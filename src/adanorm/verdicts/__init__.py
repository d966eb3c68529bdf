"""Compare norms by their scores over seeds, on record or your own, and judge the paper's claims."""

from adanorm.stats.comparison import Comparison, compare
from adanorm.stats.conjunction import League, in_family, league, pooled
from adanorm.stats.sequential import Looks

__all__ = ["Comparison", "League", "Looks", "compare", "in_family", "league", "pooled"]
