"""Spark's operators and functions over Arrow arrays: a value for each row, or why it raises."""
