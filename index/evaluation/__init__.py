"""A row space as one snapshot sees it, and where a predicate is TRUE in it, for sure and maybe."""
