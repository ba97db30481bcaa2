"""Parquet files that are put together in memory, of the pages of data files."""
