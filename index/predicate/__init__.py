"""Predicates as trees of value sets: their truth on keys, rows, statistics; what they imply of functions."""
