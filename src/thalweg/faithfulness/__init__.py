"""Faithfulness: which method to trust on a given model and dataset, with metrics and statistics over inputs."""
