"""Transformers: facts in, a small plan out, then a function of one block."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.catalogue import Catalogue

CATALOGUE = Catalogue(
    "privpipe.transforms",
    "transformer",
    {
        "Generalize": "generalize",
        "Mondrian": "mondrian",
        "LocalRecoding": "local_recoding",
        "SuppressRecords": "suppress_records",
        "Safepub": "safepub",
        "SuppressCells": "suppress_cells",
        "Microaggregate": "microaggregate",
        "FuzzyMicroaggregate": "fuzzy_microaggregate",
        "RankSwap": "rank_swap",
        "AddNoise": "add_noise",
        "Pram": "pram",
        "Shuffle": "shuffle",
        "Synthesize": "synthesize",
        "TopCode": "top_code",
        "BottomCode": "bottom_code",
        "Round": "round",
        "Sample": "sample",
        "ShiftDates": "shift_dates",
        "DropIdentifiers": "drop_identifiers",
        "Pseudonymise": "pseudonymise",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    if name in CATALOGUE.class_names:
        return CATALOGUE.of_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
