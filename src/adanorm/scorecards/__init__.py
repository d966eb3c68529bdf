"""A norm on trial: what it is, what it costs, and how it scores beside others within a budget of time."""
