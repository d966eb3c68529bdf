"""A norm on trial: what it is, costs and scores beside others within a budget of time."""
