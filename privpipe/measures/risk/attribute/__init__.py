"""What a release tells of a value without finding the record."""
