"""Sentences with their dependency trees."""
