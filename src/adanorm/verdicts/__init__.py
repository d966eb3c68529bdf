"""What scores over seeds say of two norms, for anybody's numbers; and what the records say of the claims."""

from adanorm.verdicts.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
