"""Whether an index is what the data says, at three depths."""
