"""Reports: everything about one text on one self-contained page."""
