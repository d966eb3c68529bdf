"""The models, which see of a norm nothing but make_norm(dim, *, site, after, closes_stack)."""
