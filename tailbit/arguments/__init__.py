"""What a person gives is taken if it means the same beyond doubt; anything else is refused by name."""
