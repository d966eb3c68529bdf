"""What one experiment is: its settings, where they come from, its identity."""
