"""The catalogues whose entries a policy may name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from privpipe.blocks import Catalogue

__all__ = ["Catalogues"]


@dataclass(frozen=True)
class Catalogues:
    """The catalogues; names are unique over them."""

    transforms: Catalogue
    models: Catalogue
    measures: Catalogue
    table_stages: Catalogue
    cell_guarantees: Catalogue
    set_stages: Catalogue
    joint_guarantees: Catalogue
    sets: bool = False
    """Whether entries are those of related tables."""

    @classmethod
    def shipped(cls) -> Catalogues:
        """Those of this package."""
        from privpipe import measures, models, relations, tables, transforms

        return cls(
            transforms.CATALOGUE,
            models.CATALOGUE,
            measures.CATALOGUE,
            tables.STAGES,
            tables.CELL_GUARANTEES,
            relations.STAGES,
            relations.JOINT_GUARANTEES,
        )

    def of_sets(self) -> Catalogues:
        """The same for the entries that are asked of related tables together."""
        return replace(self, sets=True)

    def of(self, section: str) -> tuple[Catalogue, ...]:
        """The catalogues a section of a policy draws from."""
        if self.sets:
            return (self.set_stages if section == "transform" else self.joint_guarantees,)
        if section == "transform":
            return (self.transforms, self.table_stages)
        return (self.models, self.measures, self.cell_guarantees)

    def every(self) -> tuple[Catalogue, ...]:
        """All of them."""
        return (
            *(self.transforms, self.table_stages, self.set_stages),
            *(self.models, self.measures, self.cell_guarantees, self.joint_guarantees),
        )
