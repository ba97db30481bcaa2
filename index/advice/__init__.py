"""What an index of each column would cost and bring, from a sample of the data, before anything is built."""
