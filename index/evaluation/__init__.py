"""Where a predicate is TRUE in a row space, for sure and maybe, is found as one snapshot sees that space."""
