"""Claims of the papers as small experiments: what they say, what is measured here, and whether it holds."""
