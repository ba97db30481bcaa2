"""Exit statuses other than 0; light, since signals are obeyed before anything heavy is imported."""

PROBLEM, WRONG_USE, AGAIN, INTERRUPTED = 1, 2, 75, 130
