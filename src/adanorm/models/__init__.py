"""The models, which know norms only through make_norm(dim, *, site, after, closes_stack)."""
