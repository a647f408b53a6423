"""Full-domain generalization: the stage and the search for its levels."""
