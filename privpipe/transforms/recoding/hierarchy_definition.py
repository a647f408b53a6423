"""The definition of a hierarchy without its values, by which a plan recognises it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["declared", "definition_digest"]


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

    Where labels depend on the values at hand (ranked by frequency, padded to the longest) that is the hierarchy as it
    was built from them; elsewhere its definition alone, so that a plan serves other tables and its digest tells
    nothing of the values.
    """
    from privpipe.hierarchies import BUILDERS
    from privpipe.hierarchies.redact import Redact

    by_longest = isinstance(spec.builder, Redact) and spec.builder.length is None
    if hierarchy.data_dependent or by_longest:
        return hierarchy.digest()
    options = {name: value for name, value in spec.to_dict().items() if name not in BUILDERS}
    text = json.dumps([declared(spec, kind), options, kind], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
