"""A sample of the data tells what an index of each column would cost and bring, before anything is built."""
