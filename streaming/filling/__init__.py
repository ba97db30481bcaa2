"""Files that lack a definition are filled beside the stream, and leave the batches their time."""
