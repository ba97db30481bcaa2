"""Where a predicate is TRUE, as sets of values: asked of keys, rows, statistics and partitions."""
