"""Local suppression: the stage and the choice of its blanks."""
