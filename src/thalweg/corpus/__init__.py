"""Run methods and certificates over a whole file of texts; rows go to Parquet shards, and interrupted runs resume."""
