"""The definition of a hierarchy without its values, by which a plan recognises it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

NULL = "null"
"""What plans made before `null_label` write for missing values."""

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["declared", "definition_digest", "earlier", "learnt_lengths", "with_lengths"]


def declared(spec: HierarchySpec, kind: str | None) -> Any:
    """The mapping a hierarchy was declared by; of one in a table, a digest of that table.

    Parameters
    ----------
    kind : str or None
        Type of the column.
    """
    from privpipe.hierarchies.spec import IN_TABLES

    if isinstance(spec.builder, IN_TABLES):
        return spec.build([], [], kind).digest()
    return spec.to_dict()


def definition_digest(spec: HierarchySpec, hierarchy: Hierarchy, kind: str | None) -> str:
    """SHA-256 of all that decides which label a value gets.

    Its definition alone, so that a plan serves other tables and its digest tells nothing of the values; what labels
    owe to the values besides is `learnt_lengths`. Values ranked by their frequency cannot be told so: there it is the
    hierarchy as it was built from them.
    """
    from privpipe.hierarchies import BUILDERS

    if hierarchy.data_dependent and not _by_longest(spec):
        return hierarchy.digest()
    options = {name: value for name, value in spec.to_dict().items() if name not in BUILDERS}
    # Intervals of plans made before labels had a choice read `[20, 25[`: their definition says nothing of labels.
    said = ["labels by type"] if _labels_by_type(spec) else []
    said += ["nulls stay missing"] if spec.options.null_label is None else []
    text = json.dumps([declared(spec, kind), options, kind, *said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def learnt_lengths(
    specs: Mapping[str, HierarchySpec], hierarchies: Mapping[str, Hierarchy]
) -> dict[str, dict[str, int]]:
    """What a plan says of the length that texts are redacted to, by column, where it is that of the longest value.

    Nothing where no hierarchy is of that kind.
    """
    found = {name: hierarchies[name].height for name in hierarchies if _by_longest(specs[name])}
    return {"lengths": found} if found else {}


def with_lengths(specs: Mapping[str, HierarchySpec], lengths: Mapping[str, int]) -> Mapping[str, HierarchySpec]:
    """The hierarchies with the lengths that a plan learnt: values of another table are redacted as those of the first.

    A longer value is outside of such a hierarchy, and goes by its rule for unknown ones.
    """
    fixed = {
        name: replace(specs[name], builder=replace(specs[name].builder, length=length))  # type: ignore[type-var]
        for name, length in lengths.items()
    }
    return {**specs, **fixed}


def earlier(specs: Mapping[str, HierarchySpec]) -> tuple[dict[str, HierarchySpec], ...]:
    """The hierarchies as plans of earlier versions knew them, the last version first.

    Before `null_label`, missing values were labelled `null`; before labels had a choice, intervals that declare none
    read `[20, 25[` besides.
    """
    labelled = {
        name: replace(spec, options=replace(spec.options, null_label=NULL)) if spec.options.null_label is None else spec
        for name, spec in specs.items()
    }
    opened = {
        name: replace(spec, builder=replace(spec.builder, labels="open")) if _labels_by_type(spec) else spec  # type: ignore[type-var]
        for name, spec in labelled.items()
    }
    return labelled, opened


def _labels_by_type(spec: HierarchySpec) -> bool:
    from privpipe.hierarchies.intervals import Intervals

    return isinstance(spec.builder, Intervals) and spec.builder.labels is None


def _by_longest(spec: HierarchySpec) -> bool:
    from privpipe.hierarchies.redact import Redact

    return isinstance(spec.builder, Redact) and spec.builder.length is None
