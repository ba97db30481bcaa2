"""The codes of a column become portable Roaring bitmaps: this is the build kernel."""
