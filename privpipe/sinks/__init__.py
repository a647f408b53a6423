"""Where releases are published: local folders, object stores, and the private record of a run."""
