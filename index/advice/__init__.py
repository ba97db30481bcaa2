"""A sample of the data shows what an index of each column would cost and save, before anything is built."""
