"""Metrics of the tasks."""
