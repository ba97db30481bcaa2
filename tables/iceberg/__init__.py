"""Apache Iceberg tables, read-only: format versions 1, 2 and 3 with Parquet data files."""
