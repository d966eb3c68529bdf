"""Treebanks: sentences with their dependency trees."""
