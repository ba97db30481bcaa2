"""A predicate is applied to one snapshot and the index: rows are selected, counted, explained and read."""
