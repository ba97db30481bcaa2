"""Predicates as trees of value sets, evaluated on keys, rows, statistics and partition values alike."""
