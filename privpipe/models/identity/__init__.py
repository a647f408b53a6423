"""Models against learning who a record is."""
