"""Frames around a run: their columns, and the rows that come out laid where they lay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.engines import Engine, Source
from privpipe.engines.base.carried_cells import CARRIED, is_carried
from privpipe.engines.base.frame_index import index_names, under_index, with_index_columns
from privpipe.engines.base.frames import (
    arrow_of,
    as_handed,
    at_hand,
    frame_like,
    is_local_frame,
    is_unordered,
    made_like,
    taken_from,
)
from privpipe.engines.base.lazy_frames import is_evaluated
from privpipe.engines.base.return_forms import ReturnForm
from privpipe.engines.base.typing import typing_of
from privpipe.errors import DataError
from privpipe.judging.class_memory import gathered_rows, places_of
from privpipe.kernels.ids.record_ids import content_hash, declared_id, ordinals, record_id

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from privpipe.draws import Seed

__all__ = ["Held", "laid_back"]


class Held:
    """A frame that a stage runs over: as a source, and as it was for the way back.

    Parameters
    ----------
    frame : path or frame
        One that can be read once is read here, and once.
    place : str
        Where it was handed over.
    named : collection of str
        Columns that stages and options name. Where an index level is among them the index is columns until the frame
        is handed back.

    Raises
    ------
    DataError
        Such an index has a level without a name, which would be lost.
    """

    def __init__(self, frame: Any, place: str, named: Collection[str] = ()) -> None:
        self.handed = frame
        levels = index_names(frame)
        self.index = levels if set(levels) & set(named) - set(frame.columns if levels else ()) else []
        if None in self.index:
            raise DataError("an index level is named and another has no name; name all of them, or reset_index()")
        frame = with_index_columns(frame) if self.index else frame
        frame = at_hand(frame, place, index=False)
        self.like = None if isinstance(frame, str | PurePath | Source) else frame
        self.rows: pa.Table | None = None
        if self.like is not None and is_local_frame(frame) and not is_unordered(frame):
            found = arrow_of(frame)
            self.rows = found.read_all() if hasattr(found, "read_all") else found
        data = str(frame) if isinstance(frame, PurePath) else frame
        self.source = data if isinstance(data, Source) else Source(data=data if self.rows is None else self.rows)

    def carry(self, found: pa.Schema, read: Collection[str]) -> None:
        """Carry columns that nothing reads and that have no logical type through as they are.

        Parameters
        ----------
        found : pyarrow.Schema
            The source's own.
        read : collection of str
            Columns that a stage reads, or a role says are looked at.
        """
        carried = {each.name: CARRIED for each in found if is_carried(each.type) and each.name not in read}
        self.source = replace(self.source, types={**self.source.types, **carried})

    def hold(self, engine: Engine) -> None:
        """Evaluate a lazy frame: what is learnt of it and what is given back are of the same rows."""
        if self.like is not None and not is_evaluated(self.source.data):
            held = engine.hold_frame(self.source.data, lasting=True).rows
            self.source = Source(data=held)
            self.like = held if self.on_cluster else self.like

    @property
    def on_cluster(self) -> bool:
        """Whether it is a frame that is lazy, and lies where a cluster put it."""
        return self.like is not None and not is_local_frame(self.like)

    def ids(self, column: str | None, seed: Seed) -> NDArray[np.int64]:
        """The ids that an engine gives these rows, in their own order.

        Among equal rows which is which does not matter.
        """
        rows = typing_of(self.rows.schema, self.source.types).convert(self.rows)  # type: ignore[union-attr]
        if column is not None:
            return declared_id(rows.column(column), seed)
        words = content_hash(rows, seed)
        return record_id(words, ordinals(words), seed)


def laid_back(
    engine: Engine,
    table: Any,
    held: Held,
    record: tuple[str | None, Seed],
    *,
    keeps_places: bool,
    form: ReturnForm,
) -> Any:
    """The table after a stage as a frame of the kind that went in.

    Rows of a local frame lie as they lay, those that went left out; rows that are new come in keyed order. A frame of
    a cluster stays lazy.

    Parameters
    ----------
    record : (str or None, Seed)
        The declared id column, if any, and the seed that keys the ids.
    """
    out = as_handed(_laid_back(engine, table, held, record, keeps_places, form), held.handed, form.labels)
    return under_index(out, held.index)


def _laid_back(
    engine: Engine, table: Any, held: Held, record: tuple[str | None, Seed], keeps_places: bool, form: ReturnForm
) -> Any:
    if held.rows is None:
        if held.on_cluster:
            return engine.in_place(table, held.like, keeps_places=keeps_places, form=form)
        return engine.collect(table, like=made_like(held.like, held.handed), form=form)
    names = list(table.schema.names)
    if not engine.count(table):
        return frame_like(engine.collect(table), held.like, form)
    rows, ids = gathered_rows(engine, table, names)
    places = places_of(held.ids(*record), ids)
    if (places < 0).any():
        return frame_like(rows, held.like, form)
    order = np.argsort(places, kind="stable")
    return taken_from(held.like, held.rows, rows.take(order), places[order])
