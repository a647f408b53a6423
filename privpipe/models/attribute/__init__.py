"""Models against learning a sensitive value of somebody."""
