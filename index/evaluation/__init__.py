"""Evaluation of a predicate in one row space of a snapshot: rows that surely match, and rows that may."""
