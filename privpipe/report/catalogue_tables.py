"""The catalogues as Markdown tables, for the README."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from privpipe.blocks import Catalogue, Entry, Guarantee
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.transforms import CATALOGUE as TRANSFORMS
from privpipe.transforms.base import Transformer

__all__ = ["catalogue_tables"]


def catalogue_tables() -> str:
    """All catalogue entries with their parameters, as Markdown.

    Examples
    --------
    >>> "`k_anonymity`" in catalogue_tables()
    True
    """
    parts = ["**Guarantees** (privacy models)", *_table(MODELS), "", "**Transformers**", *_table(TRANSFORMS)]
    if len(MEASURES):
        parts += ["", "**Measures**", *_table(MEASURES)]
    return "\n".join(parts) + "\n"


def _table(catalogue: Catalogue) -> Iterable[str]:
    transformers = catalogue is TRANSFORMS
    yield "| name | what it does | parameters |" + (" kind |" if transformers else "")
    yield "|---|---|---|" + ("---|" if transformers else "")
    for name in catalogue:
        entry = catalogue[name]
        row = f"| `{name}` | {_cell(entry.summary())} | {_cell(', '.join(_parameters(entry)))} |"
        yield row + (f" {entry.taxon} |" if issubclass(entry, Transformer) else "")


def _parameters(entry: type[Entry]) -> Iterable[str]:
    shared = {"quasi_identifiers"} if issubclass(entry, Guarantee) else set()
    for field in dataclasses.fields(entry):  # type: ignore[arg-type]
        if field.name not in shared:
            yield f"`{field.name}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
