"""Find rows whose stored values pass a condition, with Polars, which decodes nothing else."""
