"""Stand-ins for catalogues, so that the reader is shown to know no entry by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from annotated_types import Ge, Le

from privpipe import relations
from privpipe.blocks import Catalogue, Entry, Guarantee
from privpipe.blocks.marks import BaseDistribution, ColumnNames, Columns, SensitiveColumn
from privpipe.blocks.way import PAIRS
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.rules import read_file, read_mapping
from privpipe.tables import CELL_GUARANTEES, STAGES
from privpipe.transforms.base import Transformer


class Standing(Catalogue):
    """A catalogue of classes that are at hand."""

    def __init__(self, kind: str, *classes: type[Entry]) -> None:
        super().__init__("nowhere", kind, {found.__name__: "" for found in classes})
        self.found = {found.__name__: found for found in classes}

    def of_class(self, name: str) -> type[Entry]:
        return self.found[name]


@dataclass(frozen=True, kw_only=True, repr=False)
class Crowd(Guarantee):
    """Classes of at least `k`."""

    threshold_field: ClassVar[str | None] = "k"
    k: Annotated[int | None, Ge(1)] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Spread(Guarantee):
    """Values of a column spread."""

    threshold_field: ClassVar[str | None] = "t"
    needs_base: ClassVar[bool] = True
    column: Annotated[str, SensitiveColumn()]
    t: Annotated[float | None, Ge(0), Le(1)] = None
    base: Annotated[str, BaseDistribution()] = "original"


@dataclass(frozen=True, kw_only=True, repr=False)
class Census(Guarantee):
    """Against a population."""

    threshold_field: ClassVar[str | None] = "k"
    needs_population: ClassVar[bool] = True
    k: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Linkage(Guarantee):
    """Pairs."""

    way = PAIRS
    threshold_field: ClassVar[str | None] = "at_most"
    columns: Annotated[tuple[str, ...] | None, Columns()] = None
    at_most: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Swap(Transformer):
    """Names its columns."""

    columns: Annotated[tuple[str, ...], Columns()]
    by: Annotated[tuple[str, ...], ColumnNames()] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Coarsen(Transformer):
    """May leave its columns out, and suppresses."""

    columns_rule = "optional"
    suppresses = True
    columns: Annotated[tuple[str, ...] | None, Columns()] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Discard(Transformer):
    """Takes no columns."""

    taxon = "identifiers"
    columns_rule = "none"


@dataclass(frozen=True, kw_only=True, repr=False)
class Rename(Transformer):
    """Keeps an identifier."""

    taxon = "identifiers"
    columns: Annotated[tuple[str, ...], Columns()]


@pytest.fixture(scope="session")
def stand_ins() -> Catalogues:
    """Catalogues whose names no one else knows."""
    return Catalogues(
        Standing("transformer", Swap, Coarsen, Discard, Rename),
        Standing("privacy model", Crowd, Spread, Census),
        Standing("measure", Linkage),
        STAGES,
        CELL_GUARANTEES,
        relations.STAGES,
        relations.JOINT_GUARANTEES,
    )


@pytest.fixture
def read(stand_ins: Catalogues, tmp_path: Path) -> Any:
    """Read a YAML text as `release.yaml` with the stand-in catalogues."""

    def reading(text: str) -> dict[str, Any]:
        (tmp_path / "release.yaml").write_text(text, encoding="utf-8")
        return read_file(tmp_path / "release.yaml", stand_ins)

    return reading


@pytest.fixture
def read_dict(stand_ins: Catalogues) -> Any:
    """Read a mapping with the stand-in catalogues."""
    return lambda document: read_mapping(document, catalogues=stand_ins)
