"""Binding of a predicate's text to a tree, with constants parsed, cast and compared as Spark does."""
