"""Text as bytes, for language models."""
