"""Models of how a release was made, which no table can prove by itself."""
