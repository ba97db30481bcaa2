"""Postings of several row spaces are merged into one: which are due, where positions move, how keys unite."""
