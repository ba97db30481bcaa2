"""List, read and check the files of a Delta log; the protocol gate accepts or refuses its reader features."""
