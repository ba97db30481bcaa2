"""The Parquet files of the index are sorted, merged by key, and opened only if their footer is valid."""
