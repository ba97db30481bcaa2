"""What a process pays for imports: only what it uses."""
