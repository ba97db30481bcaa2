"""Read the timeline of a Hudi table: its properties, its completed instants, and what each of them says."""
