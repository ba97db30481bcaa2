"""The Parquet files of the index are sorted, read in parallel, and opened only if their footer checks."""
