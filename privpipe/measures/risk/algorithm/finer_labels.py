"""What lies one level below the labels of a release, by the column's declared hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import FilePair
from privpipe.blocks.arrays import Bools, Ints
from privpipe.hierarchies import canonical_text
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Finer", "finer_labels", "texts_of"]

Text = str | None


@dataclass(frozen=True)
class Finer:
    """A column of both files, seen through its hierarchy.

    Parameters
    ----------
    values, labels : list of str or None
        Distinct originals (and any others asked for), and distinct released labels.
    value_of, label_of : ndarray of int64, shape (n,)
        Of each record.
    children : list of ndarray of int64, shape (len(values),), or None
        Of each label the child that each value lies under, -1: not under the label; None: the label is not
        a generalization, or nothing finer is known.
    leaves : list of ndarray of int64, or None
        Of each label how many values of the hierarchy each child stands for.
    """

    values: list[Text] = field(repr=False)
    labels: list[Text] = field(repr=False)
    value_of: Ints = field(repr=False)
    label_of: Ints = field(repr=False)
    children: list[Ints | None] = field(repr=False)
    leaves: list[Ints | None] = field(repr=False)

    def covers(self, label: int) -> Bools:
        """Which values the label stands for."""
        own = self.children[label]
        if own is None:
            return np.array([value == self.labels[label] for value in self.values], dtype=np.bool_)
        return np.asarray(own >= 0, dtype=np.bool_)


def finer_labels(files: FilePair, column: str, others: Sequence[Text] = ()) -> Finer:
    """The column's labels and what each of them can be split into.

    Parameters
    ----------
    others : sequence of str or None
        Further values, of another table.
    """
    before, after = texts_of(files.original, column), texts_of(files.released, column)
    seen: dict[Text, int] = {}
    value_of = np.array([seen.setdefault(text, len(seen)) for text in before], dtype=np.int64)
    counts = np.bincount(value_of, minlength=len(seen)).tolist()
    for text in others:
        seen.setdefault(text, len(seen))
    values = list(seen)
    counts += [1] * (len(values) - len(counts))
    told: dict[Text, int] = {}
    label_of = np.array([told.setdefault(text, len(told)) for text in after], dtype=np.int64)
    labels = list(told)
    if column not in files.hierarchies:
        return Finer(values, labels, value_of, label_of, [None] * len(labels), [None] * len(labels))
    kind = column_type_of(files.original.schema.field(column).type)
    hierarchy: Any = files.hierarchies[column].build(values, counts, kind)
    codes = np.asarray(hierarchy.encode(values), dtype=np.int64)
    levels = [hierarchy.released(level) for level in range(hierarchy.height + 1)]
    split = [_split(label, levels, codes) for label in labels]
    return Finer(values, labels, value_of, label_of, [each[0] for each in split], [each[1] for each in split])


def texts_of(batch: pa.RecordBatch | pa.Table, column: str) -> list[Text]:
    """Canonical texts of a column."""
    values = batch.column(column)
    found: list[Text] = canonical_text(values, column_type_of(values.type), column=column).to_pylist()
    return found


def _split(label: Text, levels: list[list[Text]], codes: Ints) -> tuple[Ints | None, Ints | None]:
    """Children of a label at the first level below it that has several."""
    for level in range(1, len(levels)):
        under = [code for code, text in enumerate(levels[level]) if text == label]
        finer = dict.fromkeys(levels[level - 1][code] for code in under)
        if len(finer) < 2:
            continue
        numbers = {text: number for number, text in enumerate(finer)}
        child = np.full(len(levels[level]), -1, dtype=np.int64)
        child[under] = [numbers[levels[level - 1][code]] for code in under]
        return np.where(codes >= 0, child[codes], -1), np.bincount(child[under], minlength=len(finer))
    return None, None
