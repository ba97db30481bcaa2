"""Statistics of columns per row group of data files: bounds, NULLs, bytes, as the footers state them."""
