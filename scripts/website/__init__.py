"""The site's sources: the pages of the repository, and those generated from settings and records."""
