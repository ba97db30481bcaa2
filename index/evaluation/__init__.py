"""A predicate is evaluated in one row space, as a snapshot sees it: where it is TRUE, for sure and maybe."""
