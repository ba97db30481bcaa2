"""The build kernel: the codes of a column become portable Roaring bitmaps."""
