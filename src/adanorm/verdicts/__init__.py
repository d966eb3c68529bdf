"""What scores over seeds say of two norms or more, for anybody's numbers; what records say of the claims."""

from adanorm.verdicts.comparison import Comparison, compare
from adanorm.verdicts.conjunction import League, in_family, league, pooled
from adanorm.verdicts.sequential import Looks

__all__ = ["Comparison", "League", "Looks", "compare", "in_family", "league", "pooled"]
