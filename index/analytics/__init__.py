"""Counts by key are told as facets, extremes, sums, histograms and transitions."""
