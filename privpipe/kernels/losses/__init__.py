"""Information loss of masked numbers and of labels."""
