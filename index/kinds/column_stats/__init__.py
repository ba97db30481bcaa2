"""Statistics of columns and expressions per row group of data files: bounds, NULLs, bytes."""
