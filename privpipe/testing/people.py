"""A small table about invented people, with the columns that examples of the catalogues name, and its policy."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "TABLES", "People", "few_classes", "people", "rare_class"]

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "name": {"role": "identifier"},
    "household": {"role": "insensitive"},
    "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [10, 20, 40]}}},
    "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 3}}},
    "town": {
        "role": "quasi_identifier",
        "hierarchy": {"tree": {"*": {"north": ["Ashford", "Barrow"], "south": ["Crewe", "Derby"]}}},
    },
    "sex": {"role": "quasi_identifier", "hierarchy": {"tree": {"*": ["f", "m"]}}},
    "illness": {"role": "sensitive"},
    "income": {"role": "insensitive", "type": "number"},
    "born": {"role": "insensitive", "type": "date"},
    "weight": {"role": "insensitive", "type": "number"},
}
COARSE: Mapping[str, Mapping[str, Any]] = {
    name: {"role": "insensitive"} if said["role"] == "quasi_identifier" and name != "sex" else said
    for name, said in COLUMNS.items()
    if name != "weight"
}
GUARANTEES = ({"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "illness", "l": 1}})


@dataclass(frozen=True, kw_only=True)
class People:
    """A table and what a policy states about its columns.

    An entry whose examples name other columns brings its own by a class method ``example_table()``, which returns a
    mapping of these fields.

    Parameters
    ----------
    rows : pyarrow.Table
    columns : mapping
        The policy's `columns:`.
    guarantees : sequence of mapping
        The policy's `guarantees:`, for stages that work for them.
    settings : mapping
        Other keys of the policy, such as `person_id`.
    """

    rows: pa.Table = field(repr=False)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: COLUMNS)
    guarantees: tuple[Mapping[str, Any], ...] = GUARANTEES
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, Any]:
        """The policy's document, without stages."""
        columns = {name: dict(said) for name, said in self.columns.items()}
        return {"columns": columns, "guarantees": [dict(said) for said in self.guarantees], **self.settings}


def people(records: int = 120, seed: int = 5) -> People:
    """Records of every type; with ties, missing cells, and some records that are equal in all columns.

    Examples
    --------
    >>> table = people()
    >>> table.rows.num_rows, table.rows.column_names[:4]
    (120, ['name', 'household', 'age', 'zip'])
    """
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    n = records
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, n)]
    rows = pa.table(
        {
            "name": pa.array([f"person {at}" for at in range(n)]),
            "household": pa.array([f"house {at}" for at in rng.integers(0, max(1, n // 3), n)]),
            "age": pa.array(rng.integers(18, 60, n)),
            "zip": pa.array(rng.choice(["081", "082", "171", "172", "173"], n)),
            "town": pa.array(rng.choice(["Ashford", "Barrow", "Crewe", "Derby"], n), mask=rng.random(n) < 0.04),
            "sex": pa.array(rng.choice(["f", "m"], n)),
            "illness": pa.array(rng.choice(["flu", "cold", "gout"], n, p=[0.5, 0.3, 0.2])),
            "income": pa.array(np.round(rng.lognormal(3, 1, n), 1)),
            "born": pa.array(days, mask=rng.random(n) < 0.05),
            "weight": pa.array(np.round(rng.uniform(20, 90, n), 1)),
        }
    )
    twins = [0, 1, 2] if n > 10 else []
    return People(rows=pa.concat_tables([rows.slice(0, n - len(twins)), rows.take(twins)]))


def few_classes() -> People:
    """Two large classes: a stage that may suppress nothing, or needs hundreds of records in each class, has a plan."""
    rows = people(900, seed=6).rows
    return People(rows=rows.select(list(COARSE)), columns=COARSE)


def rare_class() -> People:
    """Two large classes and one of a single record, which is suppressed."""
    import pyarrow as pa

    rows = people(60, seed=7).rows.select(list(COARSE))
    sexes = [None, *rows["sex"].to_pylist()[1:]]
    return People(rows=rows.set_column(rows.column_names.index("sex"), "sex", pa.array(sexes)), columns=COARSE)


TABLES: Mapping[str, Callable[[], People]] = {
    "people": people,
    "rare class": rare_class,
    "few classes": few_classes,
}
"""A stage is tried on the first of these that it serves."""
