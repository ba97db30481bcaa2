"""Decode the wanted rows of row groups by the cheapest available method, and as little else as possible."""
