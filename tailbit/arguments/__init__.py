"""Arguments of the front door are checked and converted; an ambiguous or wrong one is a named error."""
