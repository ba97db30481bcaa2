"""A predicate meets one snapshot and the index: what it selects is found, counted, explained and read."""
