"""What masked numbers and labels have lost."""
