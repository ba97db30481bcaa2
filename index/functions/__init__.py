"""Spark's operators and functions run over Arrow arrays and give each row a value, or why it raises."""
