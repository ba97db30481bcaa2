"""A predicate is a tree of value sets, evaluated on keys, rows, statistics and partition values alike."""
