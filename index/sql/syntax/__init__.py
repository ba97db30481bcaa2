"""Parsing of a predicate's text by Spark's grammar: first into tokens, then into a tree of operators."""
