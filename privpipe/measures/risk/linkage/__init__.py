"""Attacks that find a released record of a known original one."""
