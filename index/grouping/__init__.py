"""The rows that a predicate selects are grouped and counted by key; the data is read for the rest."""
