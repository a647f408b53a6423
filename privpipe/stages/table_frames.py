"""Tables of frames: records of any kind of frame in, frames of that kind out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.frames import as_handed, at_hand, frame_like, is_local_frame, made_like
from privpipe.errors import UsageError
from privpipe.policy import Policy
from privpipe.policy.secret import secret_given
from privpipe.running.engine_choice import OpenedEngine
from privpipe.running.frame_policy import hierarchy_specs
from privpipe.running.tables_read import scanned
from privpipe.tables.aggregation import aggregated
from privpipe.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.tables.aggregate import Aggregate

__all__ = ["aggregate", "table_frame"]


@bordered
def aggregate(
    stage: Aggregate,
    frame: Any,
    *,
    person_id: str | None,
    hierarchies: Mapping[str, Any] | None,
    seed: Any,
    engine: Any,
) -> Table:
    """See `Aggregate.apply`."""
    if person_id is not None and not isinstance(person_id, str):
        raise UsageError("person_id must be the name of a column")
    given = secret_given(seed)
    secret = (given.resolve() if given is not None else Seed.from_os()).key("tables/contributor")
    specs = hierarchy_specs(hierarchies)
    data = at_hand(frame, "Aggregate.apply")
    is_path = isinstance(data, str | PurePath | Source)
    source = data if isinstance(data, Source) else Source(data=str(data) if is_path else data)
    nothing = Policy.of_fields(name="frame", columns={}, guarantees=())
    with OpenedEngine(engine, data, nothing) as opened:
        table = scanned(opened, source)
        found = aggregated(opened, table, stage.spec, person=person_id, hierarchies=specs, secret=secret)
    return Table(found, like=None if is_path else frame, engine=engine)


@bordered
def table_frame(rows: pa.Table, like: Any, engine: Any) -> Any:
    """Rows of a table, in their order, as a frame of the kind of `like`; a pyarrow Table for None."""
    if like is None:
        return rows
    data = at_hand(like, "Table")
    target = made_like(data, like)
    if is_local_frame(data):
        return as_handed(frame_like(rows, target), like)
    nothing = Policy.of_fields(name="frame", columns={}, guarantees=())
    with OpenedEngine(engine, data, nothing, holds=False) as opened:
        return as_handed(opened.collect(opened.scan(Source(data=rows)), like=data), like)
