"""Merging of row spaces into one: row spaces that are due, moves of positions, unions of postings by key."""
