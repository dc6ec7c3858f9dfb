"""Sections of the summary page, drawn in Python so that the page can be read without scripts."""
