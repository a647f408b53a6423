"""Groups of combinations under common labels, and the search that makes them lose less."""
