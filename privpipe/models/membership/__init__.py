"""Models against learning whether somebody is in the table."""
