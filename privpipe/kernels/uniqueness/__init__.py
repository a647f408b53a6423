"""Records that are unique in a sample or a population: estimators and models."""
