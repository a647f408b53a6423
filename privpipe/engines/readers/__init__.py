"""Readers that all engines share: files, folders and frames as sources, and what is known of a source."""
