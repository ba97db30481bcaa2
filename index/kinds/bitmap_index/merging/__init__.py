"""Postings of several row spaces meet in one: which are due, where positions move, what each key becomes."""
