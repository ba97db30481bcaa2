"""Signs of life of a running query are collected; a run without any is ended, and its state is printed."""
