"""Record suppression: which equivalence classes fail, and the budget of records that may go."""
