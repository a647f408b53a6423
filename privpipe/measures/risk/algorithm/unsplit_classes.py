"""Classes that a model on a sensitive column keeps from being split one level finer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, FilePair, Histogram
from privpipe.measures.risk.algorithm.finer_labels import Finer, texts_of

__all__ = ["unsplit_share"]

Ints = NDArray[np.int64]


def unsplit_share(files: FilePair, columns: Sequence[Finer], column: str) -> float:
    """Share of records in classes that fail a model on `column` when split one level finer in one other column.

    Parameters
    ----------
    files : FilePair
        Its `models` are asked, those that judge class by class.
    columns : sequence of Finer
        The quasi-identifiers.
    """
    import pyarrow as pa

    models = [model for model in files.models if isinstance(model, ClassModel) and column in model.sensitive_columns()]
    if not models or not columns:
        return 0.0
    texts = texts_of(files.original, column)
    seen: dict[str | None, int] = {}
    codes = np.array([seen.setdefault(text, len(seen)) for text in texts], dtype=np.int64)
    counts = np.bincount(codes, minlength=len(seen)).astype(np.int64)
    facts = Facts(records=len(codes), histograms={column: Histogram(pa.array(list(seen), pa.string()), counts)})
    rows = np.column_stack([each.label_of for each in columns])
    classes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    failing = np.zeros(len(codes), dtype=np.bool_)
    for each in columns:
        child = np.full(len(codes), -1, dtype=np.int64)
        for label, own in enumerate(each.children):
            if own is not None:
                here = each.label_of == label
                child[here] = own[each.value_of[here]]
        split = child >= 0
        if split.any():
            failing[split] |= _fail(classes[split], child[split], codes[split], column, models, facts)
    return float(failing.mean())


def _fail(
    classes: Ints, child: Ints, codes: Ints, column: str, models: Sequence[ClassModel], facts: Facts
) -> NDArray[np.bool_]:
    """Which records lie in a class that has a failing part."""
    parts = np.unique(np.column_stack([classes, child]), axis=0, return_inverse=True)[1].reshape(-1)
    number = int(parts.max()) + 1
    values = int(codes.max()) + 1
    cells, counts = np.unique(parts * values + codes, return_counts=True)
    offsets = np.searchsorted(cells // values, np.arange(number + 1)).astype(np.int64)
    block = ClassBlock(
        np.bincount(parts, minlength=number).astype(np.int64),
        {column: Cells(offsets, (cells % values).astype(np.int64), counts.astype(np.int64))},
    )
    wrong = np.zeros(number, dtype=np.bool_)
    for model in models:
        wrong |= ~model.passing(block, facts)
    bad = np.unique(classes[wrong[parts]])
    return np.asarray(np.isin(classes, bad), dtype=np.bool_)
