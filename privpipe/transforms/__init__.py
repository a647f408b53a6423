"""Transformers: facts in, a small plan out, then a function of one block."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.catalogue import Catalogue

CATALOGUE = Catalogue(
    "privpipe.transforms",
    "transformer",
    {
        "Generalize": "recoding.generalize",
        "Mondrian": "mondrian.mondrian",
        "LocalRecoding": "local_recoding.local_recoding",
        "SuppressRecords": "suppression.suppress_records",
        "Safepub": "sampling.safepub",
        "SuppressCells": "local_suppression.suppress_cells",
        "Microaggregate": "microaggregation.microaggregate",
        "FuzzyMicroaggregate": "microaggregation.fuzzy_microaggregate",
        "RankSwap": "swapping.rank_swap",
        "RecordSwap": "swapping.record_swap",
        "AddNoise": "noise.add_noise",
        "Pram": "noise.pram",
        "Shuffle": "synthesis.shuffle",
        "Synthesize": "synthesis.synthesize",
        "TopCode": "coding.top_code",
        "BottomCode": "coding.bottom_code",
        "Round": "coding.round",
        "Sample": "sampling.sample",
        "ShiftDates": "coding.shift_dates",
        "DropIdentifiers": "identifiers.drop_identifiers",
        "Pseudonymise": "identifiers.pseudonymise",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    return CATALOGUE.attribute(name)


def __dir__() -> list[str]:
    return CATALOGUE.attributes()
