"""Deterministic expressions over columns and constants give Spark's values over Arrow arrays."""
