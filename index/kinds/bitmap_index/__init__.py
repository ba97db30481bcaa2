"""The kind `bitmap_index` keeps postings: the positions of each value of a column in a row space."""
