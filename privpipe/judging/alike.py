"""Columns of an original brought to the form in which its release shows them, so that equal keys are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.blocks import FactsRequest, RowBlock
from privpipe.errors import DataError, HierarchyError, PrivpipeError
from privpipe.hierarchies import canonical_text
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.engines import Engine
    from privpipe.judging.rules import JudgingRules

__all__ = ["Alike", "NotAlike"]

Text = str | None
NUMBERS = ("integer", "number", "decimal")


class NotAlike(PrivpipeError):
    """A column whose values in the two tables are never equal, so that a count of equal keys would prove nothing."""


@dataclass
class Alike:
    """The tables of a comparison, by what they are; each column is brought into one form in all of them.

    `numbers` are the columns brought that hold numbers in both: of two that differ it is known that they do.
    """

    engine: Engine
    rules: JudgingRules
    tables: dict[str, Any]
    numbers: set[str] = field(default_factory=set)

    def bring(self, name: str) -> None:
        """Recode the column by its hierarchy where the release was, or write it as text where types differ.

        Raises
        ------
        NotAlike
        """
        own, shown = (self._kind(side, name) for side in ("original", "released table"))
        if shown == "text" and (name in self.rules.hierarchies or own != "text"):
            self._by_labels(name, own)
            return
        if own != shown and not {own, shown} <= set(NUMBERS):
            raise NotAlike(f"column {name!r} is {own} in the original and {shown} in the release: no value is equal.")
        self._note_numbers(name, own)
        types = {str(table.schema.field(name).type) for table in self.tables.values()}
        if len(types) > 1:
            for side in self.tables:
                self._as_text(side, name)

    def _note_numbers(self, name: str, kind: str) -> None:
        if kind in NUMBERS:
            self.numbers.add(name)

    def _kind(self, side: str, name: str) -> str:
        return str(column_type_of(self.tables[side].schema.field(name).type))

    def _by_labels(self, name: str, kind: str) -> None:
        labels: set[Text] = {
            text for text in self._values("released table", name)[1] if text not in (None, self.rules.mark)
        }
        if name not in self.rules.hierarchies:
            self._parsed(name, kind)
            return
        mine, texts, counts = self._values("original", name)
        known = set(texts)
        more: list[Text] = []
        if "holdout" in self.tables:
            more = [text for text in self._values("holdout", name)[1] if text not in known]
        try:
            hierarchy: Any = self.rules.hierarchies[name].build([*texts, *more], [*counts, *(0 for _ in more)], kind)
        except HierarchyError as error:
            raise NotAlike(f"the hierarchy of {name!r} does not fit: {error}.") from None
        level = self._level(name, hierarchy, labels, kind)
        if level == 0 and hierarchy.unknown_code is None:
            self._note_numbers(name, kind)
            for side in self.tables if kind != "text" else ():
                self._as_text(side, name)
            return
        for side in self.tables:
            if side != "released table":
                values, own = (mine, texts) if side == "original" else self._values(side, name)[:2]
                shown = _labels_of(hierarchy, level, own)
                self.tables[side] = self.engine.recode(self.tables[side], {name: (values, shown)})

    def _level(self, name: str, hierarchy: Any, labels: set[Text], kind: str) -> int:
        """The level the plan says, else the lowest that has all labels known to the hierarchy."""
        planned = [stage["detail"]["levels"] for stage in self.rules.stages if stage["name"] == "generalize"]
        for levels in reversed(planned):
            if name in levels:
                return int(levels[name])
        shown = [set(hierarchy.released_labels(level)) - {None} for level in range(hierarchy.height + 1)]
        ours = {label for label in labels if any(label in level for level in shown)}
        if kind == "text" or _plain(labels - ours, kind):
            for level, texts in enumerate(shown):
                if ours <= texts:
                    return level
        raise NotAlike(
            f"column {name!r} was not released at one level of its hierarchy, so keys over it are never equal; leave "
            "it out of columns."
        )

    def _parsed(self, name: str, kind: str) -> None:
        """Text in the release and no hierarchy: the same values, as a file without types has them, or labels."""
        import pyarrow as pa

        values, texts, _ = self._values("released table", name)
        try:
            plain = canonical_text(pa.array(texts, pa.string()), kind, column=name)
        except DataError:
            raise NotAlike(
                f"column {name!r} is {kind} in the original and text in the release, and no hierarchy says which "
                "values its labels stand for; leave it out of columns."
            ) from None
        self._note_numbers(name, kind)
        self.tables["released table"] = self.engine.recode(self.tables["released table"], {name: (values, plain)})
        for side in self.tables:
            if side != "released table":
                self._as_text(side, name)

    def _values(self, side: str, name: str) -> tuple[pa.Array, list[Text], list[int]]:
        table = self.tables[side]
        found = self.engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]
        return found.values, canonical_text(found.values, None, column=name).to_pylist(), found.counts.tolist()

    def _as_text(self, side: str, name: str) -> None:
        import pyarrow as pa

        table = self.tables[side]
        if pa.types.is_string(table.schema.field(name).type):
            return
        schema = table.schema.set(table.schema.get_field_index(name), pa.field(name, pa.string()))
        self.tables[side] = self.engine.map_rows(table, AsText(name), schema)


@dataclass(frozen=True)
class AsText:
    """A column as canonical text, block by block: 1 and 1.0 are one number, NaN is null."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.replace(self.column, canonical_text(rows.column(self.column), None, column=self.column))


def _plain(labels: set[Text], kind: str) -> bool:
    """Whether texts that no level of a hierarchy has are values of the column's type, and no labels."""
    import pyarrow as pa

    try:
        canonical_text(pa.array(sorted(str(label) for label in labels), pa.string()), kind)
    except DataError:
        return False
    return True


def _labels_of(hierarchy: Any, level: int, texts: Sequence[Text]) -> pa.Array:
    """The released label of each value; one that the hierarchy lacks stays as it is and equals no label."""
    import pyarrow as pa

    shown, codes = hierarchy.released(level), hierarchy.encode(list(texts)).tolist()
    return pa.array([shown[code] if code >= 0 else text for code, text in zip(codes, texts, strict=True)], pa.string())
