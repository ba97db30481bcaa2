"""The build kernel: the code of each row, its key's number, becomes one portable Roaring bitmap per key."""
