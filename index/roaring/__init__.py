"""The build kernel: codes of a column become portable Roaring bitmaps."""
