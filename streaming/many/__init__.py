"""Many tables in one application: one query whose offset has a part for each table, and a state for each."""
