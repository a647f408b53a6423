"""Columns as arrays: words, codes and exact numbers, straight from their buffers."""
