"""Wanted rows of row groups are decoded, the quickest way that is at hand, and as little else as can be."""
