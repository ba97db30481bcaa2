"""The Parquet files of the index are sorted, read side by side, and opened only if their footer checks."""
