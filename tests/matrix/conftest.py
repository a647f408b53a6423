"""The database server of the tests of databases."""

from __future__ import annotations

from tests.engines.databases.conftest import postgres

__all__ = ["postgres"]
