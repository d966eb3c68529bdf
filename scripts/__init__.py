"""What uses the package and is no part of it."""
