"""Local suppression: which cells to blank, and which values a blank matches."""
