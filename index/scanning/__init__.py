"""Where a predicate is TRUE in data files, found by reading them."""
