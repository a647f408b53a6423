"""The catalogues as Markdown tables, for the site."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from privpipe.blocks import Catalogue, Entry, Guarantee
from privpipe.blocks.guarantee import COMMON_KEYS
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.tables import CELL_GUARANTEES, STAGES
from privpipe.transforms import CATALOGUE as TRANSFORMS
from privpipe.transforms.base import Transformer

__all__ = ["catalogue_tables"]


def catalogue_tables(*, plug_ins: bool = False) -> str:
    """All entries of this package with their parameters, as Markdown.

    Parameters
    ----------
    plug_ins : bool
        Whether those of installed plug-ins are listed too.

    Examples
    --------
    >>> "`k_anonymity`" in catalogue_tables()
    True
    """
    parts = []
    for title, catalogue in (
        ("**Guarantees** (privacy models)", MODELS),
        ("**Transformers**", TRANSFORMS),
        ("**Measures**", MEASURES),
        ("**Stages on tables**", STAGES),
        ("**Guarantees on cells of tables**", CELL_GUARANTEES),
    ):
        parts += ["", title, *_table(catalogue, catalogue if plug_ins else catalogue.built_in)]
    return "\n".join(parts[1:]) + "\n"


def _table(catalogue: Catalogue, names: Iterable[str]) -> Iterable[str]:
    transformers = catalogue is TRANSFORMS
    yield "| name | what it does | parameters |" + (" kind |" if transformers else "")
    yield "|---|---|---|" + ("---|" if transformers else "")
    for name in names:
        entry = catalogue[name]
        row = f"| `{name}` | {_cell(entry.summary())} | {_cell(', '.join(_parameters(entry)))} |"
        yield row + (f" {entry.taxon} |" if issubclass(entry, Transformer) else "")


def _parameters(entry: type[Entry]) -> Iterable[str]:
    shared = set(COMMON_KEYS) if issubclass(entry, Guarantee) else set()
    for field in dataclasses.fields(entry):  # type: ignore[arg-type]
        if field.name not in shared:
            yield f"`{field.name}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
