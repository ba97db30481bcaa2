"""Rows that a predicate selects are grouped and counted by key; counts become facets, sums, histograms."""
