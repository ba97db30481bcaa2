"""Find rows whose stored values pass a condition, with Polars or pyarrow, which decode nothing else."""
