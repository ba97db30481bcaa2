"""What keeps an index small and sound: verify, merge, vacuum, alter."""
