"""What people read: tables made from the catalogues and from assessments."""

from __future__ import annotations

from privpipe.reporting.entry_rows import catalogue_tables

__all__ = ["catalogue_tables"]
