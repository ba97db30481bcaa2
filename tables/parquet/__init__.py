"""A data file is opened if its footer agrees with itself; its columns are decoded as the table means them."""
