"""Functions of texts: patterns, vectorised functions, and functions computed once per distinct text."""
