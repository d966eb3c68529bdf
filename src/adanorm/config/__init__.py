"""The configuration of one experiment: its settings, where they come from, and its identity."""
