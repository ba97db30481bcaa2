"""Dictionary-coded column chunks, decoded to the numbers of their values instead of the values."""
