"""A predicate is a tree of value sets: where it is TRUE, asked of keys, rows, statistics and partitions."""
