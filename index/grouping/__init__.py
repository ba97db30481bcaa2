"""The rows that a predicate selects are grouped and counted by key, from postings or else from data."""
