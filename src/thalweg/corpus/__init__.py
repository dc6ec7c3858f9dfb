"""Whole corpora: every text through a model, methods and certificates, in shards that a killed run goes on from."""
