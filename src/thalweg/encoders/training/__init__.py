"""Classifiers from a table of texts and labels, trained so that a run can be killed, resumed and repeated."""
