"""A predicate meets one snapshot and the index: coverage, bounds, answers."""
