"""A query is prepared and launched, attended to its end, and known in its process until then."""
