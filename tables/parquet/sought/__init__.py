"""Rows whose stored values pass a condition are found by Polars, which decodes nothing else."""
