"""Data files are scanned for the rows where a predicate is TRUE."""
