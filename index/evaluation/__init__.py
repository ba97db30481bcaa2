"""A predicate is evaluated in one row space of a snapshot: rows that surely match, and rows that may."""
