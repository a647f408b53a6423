"""Top and bottom coding, rounding, shifted dates."""
