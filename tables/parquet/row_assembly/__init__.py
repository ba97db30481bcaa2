"""Parquet files assembled in memory from the pages of data files."""
