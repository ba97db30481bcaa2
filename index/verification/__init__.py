"""An index is compared with the data, at one of three depths, and what differs is reported."""
