"""What a Delta log says: its files by version, the actions of commits, log checkpoints, the protocol gate."""
