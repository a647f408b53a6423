"""The embedded engine on one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from privpipe.engines.embedded import EmbeddedEngine

__all__ = ["ThriftyEngine"]


class ThriftyEngine(EmbeddedEngine):
    """Takes the options of the embedded engine, and one thread where none are given."""

    name: ClassVar[str] = "thrifty"

    @classmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        return super().open({"threads": 1, **options})
