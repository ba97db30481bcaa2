"""Signs of life of a running query are gathered, and a run that gives none is ended with what is known."""
