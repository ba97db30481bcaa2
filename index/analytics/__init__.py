"""Counts by key become facets, extremes, sums, histograms and transitions."""
