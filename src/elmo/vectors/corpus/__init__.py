"""Embed a whole corpus into a folder of Parquet shards."""
