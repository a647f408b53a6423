"""The data types that engines, models and stages exchange: blocks, facts, entries, verdicts."""

from __future__ import annotations

from privpipe.blocks.class_block import Cells, ClassBlock, ClassQuery, DistinctBlock, Tally
from privpipe.blocks.entry import Catalogue, Entry
from privpipe.blocks.facts import Facts, FactsRequest, Histogram, Moments
from privpipe.blocks.file_pair import FilePair, FilePairMeasure, GatheredPairs
from privpipe.blocks.guarantee import ClassModel, Guarantee, prepared
from privpipe.blocks.primitives import (
    ID_COLUMNS,
    PairBlock,
    Primitives,
    RankExchange,
    Reduction,
    RowBlock,
    Table,
    unsigned_zeros,
)
from privpipe.blocks.size_model import SizeModel
from privpipe.blocks.verdict import Outcome, Verdict

__all__ = [
    "ID_COLUMNS",
    "Catalogue",
    "Cells",
    "ClassBlock",
    "ClassModel",
    "ClassQuery",
    "DistinctBlock",
    "Entry",
    "Facts",
    "FactsRequest",
    "FilePair",
    "FilePairMeasure",
    "GatheredPairs",
    "Guarantee",
    "Histogram",
    "Moments",
    "Outcome",
    "PairBlock",
    "Primitives",
    "RankExchange",
    "Reduction",
    "RowBlock",
    "SizeModel",
    "Table",
    "Tally",
    "Verdict",
    "prepared",
    "unsigned_zeros",
]
