"""The summary of a corpus as an HTML page, drawn in Python so that it can be read without scripts."""
