"""The metadata table is one Delta table: it is opened, held in memory and committed to here."""
