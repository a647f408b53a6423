"""Synthetic records on an engine: new ones by their number, or columns of a table drawn anew by the record's id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.transforms.categories import Labels, typed
from privpipe.transforms.strata import Strata
from privpipe.transforms.synthesis.codebooks import Codebook
from privpipe.transforms.synthesis.copula_model import PRESENT

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["CopulaModel", "Drawn", "Redrawn"]

NUMBER = "number"


class _Model(Protocol):
    def drawn(self, ids: NDArray[np.int64], strata: NDArray[np.int64], rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name, for records with these ids in these strata."""


@dataclass(frozen=True)
class CopulaModel:
    """Draws the columns of records, each by its id and stratum."""

    detail: Mapping[str, Any] = field(repr=False)
    schema: Any
    draws: Draws = field(repr=False)

    def drawn(self, ids: NDArray[np.int64], strata: NDArray[np.int64], rows: RowBlock | None = None) -> dict[str, Any]:
        """Arrow columns by name."""
        import pyarrow as pa

        parts: dict[str, list[Any]] = {name: [] for name in self.detail["columns"]}
        orders = []
        for number in np.unique(strata).tolist():
            here = np.flatnonzero(strata == number)
            orders.append(here)
            for name, array in self._stratum(ids[here], self.detail["models"][number]).items():
                parts[name].append(array)
        if not orders:
            return {name: pa.array([], self.schema.field(name).type) for name in parts}
        back = pa.array(np.argsort(np.concatenate(orders)))
        return {name: pa.concat_arrays(arrays).take(back) for name, arrays in parts.items()}

    def _stratum(self, ids: NDArray[np.int64], model: Mapping[str, Any]) -> dict[str, Any]:
        from privpipe.kernels.synthesis.copula import uniforms_of

        normals = [self.draws.of(name).normal(ids, word=int(what != PRESENT)) for name, what in model["latent"]]
        uniforms = dict(zip(map(tuple, model["latent"]), uniforms_of(normals, model["factor"]), strict=True))
        found = {}
        for name, marginal in model["columns"].items():
            gaps = uniforms.get((name, "missing"))
            if gaps is None:
                gaps = self.draws.of(name).uniform(ids, word=2)
            found[name] = _values(
                uniforms[name, PRESENT], gaps < marginal["missing"], marginal, self.schema.field(name)
            )
        return found


@dataclass(frozen=True)
class Drawn:
    """A function of record numbers: the records of the model."""

    by: tuple[str, ...]
    combinations: Sequence[Mapping[str, Any]] = field(repr=False)
    ends: tuple[int, ...]
    model: _Model
    schema: Any

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        t = np.asarray(rows.column(NUMBER).to_numpy(zero_copy_only=False), np.int64)
        places = np.searchsorted(np.array(self.ends, np.int64), t, side="right")
        combinations, schema = self.combinations, self.schema
        strata = np.array([each["stratum"] for each in combinations], np.int64)[places]
        # A record is drawn by its number alone: the same for any partitioning.
        columns = self.model.drawn(np.column_stack([t, np.zeros(len(t), np.int64)]), strata)
        for at, name in enumerate(self.by):
            words = pa.array([each["values"][at] for each in combinations], pa.string()).take(pa.array(places))
            columns[name] = typed(words, schema.field(name).type)
        batch = pa.record_batch([columns[name] for name in schema.names], schema=schema)
        return RowBlock(batch, rows.record_ids)


@dataclass(frozen=True)
class Redrawn:
    """A function of records: some of their columns drawn anew, by the record's id."""

    strata: Strata
    model: _Model

    def __call__(self, rows: RowBlock) -> RowBlock:
        rows, numbers = self.strata.kept(rows)
        for name, column in self.model.drawn(rows.record_ids, numbers, rows).items():
            rows = rows.replace(name, column)
        return rows


def _values(u: NDArray[np.float64], missing: NDArray[np.bool_], marginal: Mapping[str, Any], column: Any) -> Any:
    """The marginal's values at u."""
    import pyarrow as pa

    from privpipe.kernels.synthesis.copula import inverse_shares, within_share

    if "labels" in marginal:
        labels = Labels(marginal["labels"])
        if not labels.texts:
            return pa.nulls(len(u), column.type)
        codes = np.where(missing, -1, inverse_shares(u, marginal["shares"]))
        return labels.words(codes).cast(column.type)
    if not marginal["shares"]:
        return pa.nulls(len(u), column.type)
    book = Codebook.from_dict(marginal)
    codes = inverse_shares(u, marginal["shares"])
    points = within_share(u, codes, marginal["shares"])
    return book.values(np.where(missing, 0, codes + 1), points, column.type)
