"""The page on which settings of a policy are looked at, and one is chosen."""
