"""Risk and utility measures: reported, or demanded by a threshold."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.catalogue import Catalogue

CATALOGUE = Catalogue(
    "privpipe.measures",
    "measure",
    {
        "AttributeRisk": "risk.attribute_risk",
        "Distinction": "risk.distinction",
        "Separation": "risk.separation",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    if name in CATALOGUE.class_names:
        return CATALOGUE.of_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
