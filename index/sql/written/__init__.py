"""What a text spells in a way of its own, before it is parsed: intervals, words for commas, variables."""
