"""Labels of dimensions that were fixed before any record was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from privpipe.errors import UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.tables.dimension_labels import Ladder, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["fixed_domains", "fixed_leaves"]


def fixed_domains(
    by: Sequence[str],
    written: Mapping[str, Sequence[str]],
    schema: pa.Schema,
    hierarchies: Mapping[str, Hierarchy | HierarchySpec],
) -> tuple[dict[str, tuple[str, ...]], dict[str, Hierarchy]]:
    """The values of every dimension, and its hierarchy over them: as written, else those that the hierarchy holds.

    Raises
    ------
    UsageError
        A dimension has neither.
    """
    for name in written:
        if name not in by:
            raise UsageError(f"domain: {name!r} is not a dimension of the table{did_you_mean(name, by)}")
    domains: dict[str, tuple[str, ...]] = {}
    found: dict[str, Hierarchy] = {}
    for name in by:
        given = hierarchies.get(name)
        texts = list(dict.fromkeys(written.get(name, ())))
        if isinstance(given, HierarchySpec):
            given = given.build(texts, [1] * len(texts), kind_of(schema.field(name).type))
        if not texts and given is not None and not given.data_dependent:
            texts = list(dict.fromkeys(given.texts(0)))
        if not texts:
            raise UsageError(
                f"private_table: the labels of {name!r} must be fixed before records are looked at: write its values, "
                f"as in domain: {{{name}: [...]}}, or give it a hierarchy from a file"
            )
        domains[name] = tuple(texts)
        if given is not None:
            found[name] = given
    return domains, found


def fixed_leaves(ladder: Ladder, domain: Mapping[str, Sequence[str]] | None, *, drop_nulls: bool) -> list[str | None]:
    """Leaves that a dimension has whatever the records hold; none where its labels come from them."""
    if domain is None:
        return []
    values: list[str | None] = list(domain[ladder.name])
    leaves = ladder.labels(values, ladder.levels[0]) if ladder.coarsens else values
    return [*leaves, *(() if drop_nulls else (None,))]
