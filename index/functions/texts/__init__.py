"""Functions of texts: patterns, what Arrow does for all texts, what is done once for each distinct text."""
