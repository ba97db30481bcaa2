"""The Parquet files of the index: checked footers, sorted rows."""
