"""Postings say where in a row space a value occurs; segments keep them, lookups decode them."""
