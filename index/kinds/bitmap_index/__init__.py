"""The kind `bitmap_index` keeps postings: where in a row space a column has which value."""
