"""Local suppression: which cells to blank, and what a blank matches."""
