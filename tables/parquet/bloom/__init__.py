"""Bloom filters of Parquet files: which row groups surely do not hold a value, as writers recorded it."""
