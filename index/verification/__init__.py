"""An index is compared with the data, at one of three depths, and differences are reported."""
