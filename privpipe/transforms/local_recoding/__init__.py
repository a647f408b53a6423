"""Local recoding: the stage and the choice of its rounds."""
