"""Transformers: facts in, a small plan out, then a function of one block."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.entry import Catalogue

CATALOGUE = Catalogue(
    "privpipe.transforms",
    "transformer",
    {
        "Generalize": "recoding.generalize",
        "Mondrian": "mondrian.mondrian",
        "LocalRecoding": "local_recoding.local_recoding",
        "SuppressRecords": "suppression.record_suppression",
        "Safepub": "sampling.safepub",
        "SuppressCells": "local_suppression.suppress_cells",
        "HideResults": "suppression.hide_results",
        "Microaggregate": "microaggregation.microaggregate",
        "FuzzyMicroaggregate": "microaggregation.microaggregate",
        "RankSwap": "swapping.rank_swap",
        "RecordSwap": "swapping.record_swap",
        "AddNoise": "noise.add_noise",
        "Pram": "noise.pram",
        "Shuffle": "synthesis.shuffle",
        "Synthesize": "synthesis.synthesize",
        "TopCode": "coding.tail_coding",
        "BottomCode": "coding.tail_coding",
        "Round": "coding.round",
        "Sample": "sampling.sample",
        "ShiftDates": "coding.shift_dates",
        "DropIdentifiers": "identifiers.identifier_columns",
        "Pseudonymise": "identifiers.identifier_columns",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    return CATALOGUE.attribute(name)


def __dir__() -> list[str]:
    return CATALOGUE.attributes()
