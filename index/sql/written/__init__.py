"""What a text spells in a way of its own, before it is parsed: intervals, and words in place of commas."""
