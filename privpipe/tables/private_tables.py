"""The stage `private_table`: noise of differential privacy, paid for by the budget of the source."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from privpipe.blocks.marks import FilePath
from privpipe.errors import DataError, Refused, SinkError, UsageError
from privpipe.hierarchies import canonical_text
from privpipe.private_files import flush_new, locked, private_folder
from privpipe.tables.aggregates import rational
from privpipe.tables.aggregation import COUNT
from privpipe.tables.entries import TableSet, TableStage
from privpipe.tables.perturbed_tables import require_added_up
from privpipe.tables.private_noise import MECHANISMS, Paid, PrivateNoise, Spend, levels_of
from privpipe.tables.table import Table

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.tables.aggregation import TableSpec

__all__ = ["FOLDER", "PrivateTable", "SpendBook"]


FOLDER = "spends"
"""Within the folder of a ledger."""
HEAD, LOCK = "head.json", "lock"
START = "0" * 64
DAMAGED = (
    "private_table: the spends kept in the ledger are damaged ({why}); restore them, for what was spent is not known, "
    "and nothing is drawn"
)


@dataclass(frozen=True)
class SpendBook:
    """Spends of all sources, one file each, chained by their hashes.

    Amounts of one source and unit add up exactly. A file counts from the moment that it is written, whatever becomes of
    the run: a killed run may have shown figures, so its budget is spent.

    Parameters
    ----------
    ledger : Path
        A local folder; spends are kept in `FOLDER` of it.

    Examples
    --------
    >>> import tempfile
    >>> book = SpendBook(Path(tempfile.mkdtemp()))
    >>> paid = book.spend("visits", Spend("epsilon", Fraction(3, 4)), Fraction(1))
    >>> paid.left, book.spent("visits", "epsilon"), book.spent("others", "epsilon")
    (Fraction(3, 4), Fraction(3, 4), Fraction(0, 1))
    >>> book.spend("visits", Spend("epsilon", Fraction(1, 2)), Fraction(1))
    Traceback (most recent call last):
    ...
    privpipe.errors.Refused: private_table: it costs epsilon 0.5, and 0.25 of 1 is left. Nothing was published
    """

    ledger: Path

    @property
    def folder(self) -> Path:
        """Where the spends are."""
        return self.ledger / FOLDER

    def spent(self, source: str, unit: str) -> Fraction:
        """What a source has spent.

        Raises
        ------
        UsageError
            Of another unit: the two do not add up.
        DataError
            A spend is missing, or was changed.
        """
        return _added(self._read(), source, unit)

    def spend(self, source: str, spend: Spend, limit: Fraction) -> Paid:
        """Write a spend, and return the payment for its noise.

        Raises
        ------
        Refused
            Less than it is left of the limit; nothing was written.
        UsageError, DataError
            As `spent`.
        SinkError
            It cannot be written, or another run is writing.
        """
        if not spend.amount > 0:
            raise UsageError("private_table: spend more than 0")
        private_folder(self.folder)
        with os.fdopen(locked(self.folder / LOCK, "the book of spends of private_table")):
            kept = self._read()
            left = limit - _added(kept, source, spend.unit)
            if spend.amount > left:
                cost, some, all_of_it = (float(each) for each in (spend.amount, max(left, Fraction(0)), limit))
                raise Refused(
                    f"private_table: it costs {spend.unit} {cost:g}, and {some:g} of {all_of_it:g} is left. "
                    "Nothing was published"
                )
            number = len(kept) + 1
            data = _document(
                number=number,
                previous=_digest(kept[-1][1]) if kept else START,
                source=source,
                unit=spend.unit,
                amount=str(spend.amount),
                limit=str(limit),
                time=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            try:
                flush_new(self._file(number), data)
                flush_new(self.folder / HEAD, _document(number=number, tip=_digest(data)))
            except OSError as error:
                raise SinkError(f"private_table: the spend cannot be written: {error.strerror}") from None
        return Paid(spend.unit, spend.amount)

    def _file(self, number: int) -> Path:
        return self.folder / f"spend-{number:08}.json"

    def _read(self) -> list[tuple[Mapping[str, Any], bytes]]:
        """Every spend, proved link by link."""
        try:
            names = {place.name for place in self.folder.iterdir()}
            kept: list[tuple[Mapping[str, Any], bytes]] = []
            previous = START
            while (path := self._file(len(kept) + 1)).name in names:
                data = path.read_bytes()
                document = json.loads(data)
                if document["number"] != len(kept) + 1 or document["previous"] != previous:
                    raise DataError(DAMAGED.format(why="one does not follow on another"))
                if not Fraction(document["amount"]) > 0:
                    raise DataError(DAMAGED.format(why="one is of nothing"))
                previous = _digest(data)
                kept.append((document, data))
            spends = sum(name.startswith("spend-") and name.endswith(".json") for name in names)
            head = json.loads((self.folder / HEAD).read_bytes()) if HEAD in names else {"number": 0, "tip": START}
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SinkError(f"private_table: the spends cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, RecursionError, ArithmeticError):
            raise DataError(DAMAGED.format(why="one is not a spend")) from None
        # A run that was killed between its spend and the head has spent.
        tips: dict[Any, Any] = {len(kept): previous, len(kept) - 1: kept[-1][0]["previous"] if kept else START}
        if spends != len(kept) or tips.get(head.get("number")) != head.get("tip"):
            raise DataError(DAMAGED.format(why="some are missing"))
        return kept


def _added(kept: list[tuple[Mapping[str, Any], bytes]], source: str, unit: str) -> Fraction:
    own = [each for each, _ in kept if each["source"] == source]
    if any(each["unit"] != unit for each in own):
        raise UsageError(
            f"private_table: the ledger counts spends of this source in another unit than {unit}, and the two do not "
            "add up; keep one mechanism for a source"
        )
    return sum((Fraction(each["amount"]) for each in own), start=Fraction(0))


def _document(**fields: Any) -> bytes:
    return (json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n").encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


SPENT = "each run of private_table draws other noise and is paid for again: keep what was published"
SEVERAL = "contributors count in up to {bound} leaf cells, and in totals as often as in leaf cells"


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateTable(TableStage):
    """Publish counts and sums with noise, so that the table hardly depends on any one contributor.

    Labels are fixed before records are looked at; each contributor counts in a few leaf cells, with bounded sums. The
    noise is drawn from the system, never from the seed, and never twice: the ledger adds up what each run has cost the
    source, and a run that costs more than is left is refused. The spend is written before the noise is drawn. The
    guarantee `differential_privacy` judges the record that the stage leaves; no other guarantee on cells applies, and
    nothing else may be done to the tables.

    Parameters
    ----------
    epsilon, rho : float
        The one that the mechanism takes, for all tables and responses of the stage together, which share it evenly.
    limit : float
        What all runs over the source may cost together, in the same unit.
    ledger : str
        A local folder in which spends are kept.
    contribution_bound : int
        Leaf cells of each table in which a contributor counts, chosen by a key.
    bounds : mapping of column to [least, most]
        Bounds to which the sum of a contributor in a leaf cell is clipped; needed for sums.
    domain : mapping of column to list
        Values of the dimensions; left out: those of the column's hierarchy. Records with others are left out.
    mechanism : {"laplace", "gaussian"}
        Discrete Laplace noise takes `epsilon`, discrete Gaussian noise `rho`.
    split : {"leaves", "levels"}
        Noise only in leaf cells, or a share of the budget at each combination of levels, reconciled by least
        squares.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate
    >>> visits = pd.DataFrame({"region": list("NNNNNSSSS"), "person": range(9)})
    >>> noise = PrivateTable(
    ...     epsilon=1, limit=1, ledger=tempfile.mkdtemp(), contribution_bound=1, domain={"region": ["N", "S", "W"]}
    ... )
    >>> table = Aggregate(by=["region"], responses=["count"]).apply(visits, person_id="person", stages=[noise])
    >>> public = noise.apply(table).public()
    >>> public["region"].tolist(), set(public["count_status"])
    (['Total', 'N', 'S', 'W', '(missing)'], {'noisy'})
    >>> int(public["count"][0] - public["count"][1:].sum())
    0
    >>> noise.apply(table)
    Traceback (most recent call last):
    ...
    privpipe.errors.Refused: private_table: it costs epsilon 1, and 0 of 1 is left. Nothing was published
    """

    source = (
        "Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020; Hay et al., VLDB 2010"
    )
    preserves: ClassVar[str] = "counts and sums up to noise of a known scale"
    reveals: ClassVar[str] = "little more of any contributor than a table without the contributor would"
    forbids_counts: ClassVar[bool] = True
    withheld: ClassVar[tuple[str, ...]] = ("ledger",)

    epsilon: Annotated[float | None, Gt(0), Doc("total budget of all tables, with laplace noise")] = None
    rho: Annotated[float | None, Gt(0), Doc("total budget of all tables, with gaussian noise")] = None
    delta: Annotated[float | None, Gt(0), Lt(1), Doc("of the statement about gaussian noise; it changes no noise")] = (
        None
    )
    limit: Annotated[float, Gt(0), Doc("total budget of all runs over the source, in the same unit")]
    ledger: Annotated[str, FilePath(), Doc("local folder in which the spends of each source are kept")]
    contribution_bound: Annotated[int, Ge(1), Doc("leaf cells of each table in which a contributor counts")]
    bounds: Annotated[
        dict[str, tuple[float, float]],
        Doc("[least, most] by column: a contributor's sum in a cell is clipped to these"),
    ] = None  # type: ignore[assignment]
    domain: Annotated[
        dict[str, list[Any]], Doc("values of each dimension, fixed beforehand; left out: those of its hierarchy")
    ] = None  # type: ignore[assignment]
    neighbours: Annotated[
        Literal["add_remove", "replace"], Doc("tables that differ by one contributor, or by the values of one")
    ] = "add_remove"
    mechanism: Annotated[Literal["laplace", "gaussian"], Doc("discrete Laplace or discrete Gaussian noise")] = "laplace"
    split: Annotated[
        Literal["leaves", "levels"], Doc("noise in leaf cells, or at every level and brought together")
    ] = "leaves"
    at_least_zero: Annotated[bool, Doc("negative figures of leaf cells become 0, which costs nothing and biases")] = (
        False
    )
    tables: Annotated[tuple[str, ...] | None, Doc("tables that get noise; left out: all")] = None

    def __post_init__(self) -> None:
        for name in ("bounds", "domain"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        super().__post_init__()
        self._noise(Fraction(1), {})
        if "://" in self.ledger or not self.ledger:
            raise UsageError("PrivateTable: a ledger is on a local (or mounted) file system; name a folder there")
        for column, pair in self.bounds.items():
            if not _ends(pair)[0] < _ends(pair)[1]:
                raise UsageError(f"PrivateTable: bounds.{column}: give [least, most], the first below the second")
        for column, values in self.domain.items():
            if not values or len(set(_texts(values))) < len(values):
                raise UsageError(f"PrivateTable: domain.{column}: give distinct values, at least one")

    @property
    def spend(self) -> Spend:
        """What a run costs."""
        unit = MECHANISMS[self.mechanism]
        return Spend(unit, rational(getattr(self, unit), f"private_table: {unit}"))

    def _noise(self, share: Fraction, bounds: Mapping[str, tuple[int, int]]) -> PrivateNoise:
        """The noise of one table.

        Raises
        ------
        UsageError
            Parameters that do not go together.
        """
        given = {name: None if (value := getattr(self, name)) is None else rational(value, name) for name in BUDGETS}
        return PrivateNoise(
            epsilon=None if given["epsilon"] is None else given["epsilon"] * share,
            rho=None if given["rho"] is None else given["rho"] * share,
            delta=given["delta"],
            contribution_bound=self.contribution_bound,
            bounds=bounds,
            neighbours=self.neighbours,
            mechanism=self.mechanism,
            split=self.split,
            at_least_zero=self.at_least_zero,
        )

    def counting(self, spec: TableSpec, seed: Seed) -> TableSpec:
        require_added_up(self.name(), spec)
        for name, given in (("weight", spec.weight), ("overlapping", spec.overlapping), ("waived", spec.waived)):
            if given:
                raise UsageError(f"private_table: tables with `{name}` are not served; leave it out")
        if spec.contribution_bound not in (None, self.contribution_bound):
            raise UsageError("private_table: aggregate has another `contribution_bound`; leave it out there")
        missing = [column for column in spec.sums if column not in self.bounds]
        if missing:
            raise UsageError(
                f"private_table: sums of {missing[0]!r} need bounds for a contributor's part, chosen without "
                f"looking at the data: bounds: {{{missing[0]}: [least, most]}}"
            )
        return replace(
            spec,
            contribution_bound=self.contribution_bound,
            bounds={column: _ends(self.bounds[column]) for column in spec.sums},
            domain={column: _texts(values) for column, values in self.domain.items() if column in spec.by},
        )

    def run(self, tables: TableSet) -> TableSet:
        chosen = tables.chosen(self.tables)
        share = Fraction(1, max(len(chosen), 1))
        noises = {name: self._noise(share, self._units(table)) for name, table in chosen.items()}
        paid = SpendBook(Path(self.ledger)).spend(
            tables.source, self.spend, rational(self.limit, "private_table: limit")
        )
        changed = {}
        for name, table in chosen.items():
            figures = {key: table.measures[key].figures.totals for key in table.shown_measures}
            found = noises[name].noisy(table.cells, figures, paid)
            measures = dict(table.measures)
            for key, noisy in found.items():
                measures[key] = replace(measures[key], shown=noisy, low=noisy, high=noisy, status="noisy")
            process = self._process(table, noises[name])
            changed[name] = replace(table, measures=measures, process=process)
        notes = [SPENT, *([SEVERAL.format(bound=self.contribution_bound)] if self.contribution_bound > 1 else [])]
        process = {name: dict(table.process or {}) for name, table in changed.items()}
        return tables.having(changed, *notes, step={"public": {"process": process}})

    def _units(self, table: Table) -> dict[str, tuple[int, int]]:
        """Bounds in the units of each sum.

        Raises
        ------
        UsageError
            The table was not counted for this stage, or something was done to it.
        """
        spec = table.aggregated.spec
        wanted = {column: _ends(self.bounds[column]) for column in spec.sums if column in self.bounds}
        if spec.domain is None or spec.contribution_bound != self.contribution_bound or dict(spec.bounds) != wanted:
            raise UsageError(
                f"private_table: table {table.name!r} was not counted with bounded contributions; give the stage to "
                "Aggregate too: Aggregate(...).apply(frame, person_id=..., stages=[...])"
            )
        for key in table.shown_measures:
            measure = table.measures[key]
            if measure.status != "published" or bool(measure.hidden.any()):
                raise UsageError(
                    f"private_table: something was done to table {table.name!r} already, by its true figures; let "
                    "private_table be the only stage after aggregate"
                )
        found = {}
        for column, (least, most) in wanted.items():
            unit = 10 ** table.measures[column].figures.decimals
            found[column] = (int(least * unit), int(most * unit))
        return found

    def _process(self, table: Table, noise: PrivateNoise) -> dict[str, Any]:
        """What may be published of the noise: never numbers of contributors or of clipped values."""
        keys = table.shown_measures
        levels = int(levels_of(table.cells).max(initial=0)) + 1 if self.split == "levels" else 1
        share = Fraction(1, len(keys) * levels)
        process: dict[str, Any] = {
            "mechanism": f"discrete {self.mechanism}",
            noise.spend.unit: str(noise.spend.amount),
            "contribution_bound": self.contribution_bound,
            "neighbours": self.neighbours,
            "split": self.split,
            "levels": levels,
            "scales": {key: float(noise.scale(key, share, leaves=self.split == "leaves")) for key in keys},
            "bounds": {key: list(noise.bounds[key]) for key in keys if key != COUNT},
            "labels_fixed": True,
        }
        if self.delta is not None and noise.rho is not None:
            rho = float(self.spend.amount)
            process["delta"] = float(self.delta)
            process["epsilon_of_all_tables"] = rho + 2 * math.sqrt(rho * math.log(1 / self.delta))
        return process

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(epsilon=1, limit=4, ledger="ledger", contribution_bound=2),
            cls(rho=0.1, limit=1, ledger="ledger", contribution_bound=1, mechanism="gaussian", split="levels"),
        ]


BUDGETS = ("epsilon", "rho", "delta")


def _ends(pair: tuple[float, float]) -> tuple[Fraction, Fraction]:
    return rational(pair[0], "private_table: bounds"), rational(pair[1], "private_table: bounds")


def _texts(values: list[Any]) -> tuple[str, ...]:
    """Canonical texts of values."""
    import pyarrow as pa

    return tuple(str(canonical_text(pa.array([value]), None)[0].as_py()) for value in values)
