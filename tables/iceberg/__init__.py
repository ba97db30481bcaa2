"""Read an Iceberg table: snapshots, the deletes that apply to each file, changes."""
