"""Kind `bitmap_index`: postings of columns over a row space, in segments."""
