"""The document of a shared run: who holds records, which cells are added up, and what the joint table must meet."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privpipe.errors import PolicyError, Problem, SinkError, UnsupportedError, UsageError, did_you_mean
from privpipe.sharing.sealed_files import SealingKey
from privpipe.signing import PublicKey
from privpipe.tables.aggregates import rational
from privpipe.tables.aggregation import COUNT
from privpipe.tables.private_noise import PrivateNoise

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["CONTRIBUTORS", "TABLE", "Holder", "RunDocument", "SharedMeasure"]

VERSION = 1
CONTRIBUTORS = ":contributors"
"""After the name of a sum: the persons who have a value."""
TABLE = "joint"
"""Name of the table that is published."""
MOST_TOTAL = 2**62
"""Totals of all cells of all holders stay below it, so that shares modulo 2^64 give the integers themselves."""
MOST_LEAVES = 2_000_000
LEAST_WRITTEN = 3
"""Holders of a run whose writer sees the exact joint table: of two, it would see the other's cells."""
REQUIRED = ("version", "nonce", "exchange", "holders", "dimensions", "measures", "disjoint_persons")
OPTIONAL = ("person_id", "guarantees", "writer", "suppress", "epsilon", "contribution_bound", "colluding")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
NONCE = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True)
class Holder:
    """The public keys of a holder: Ed25519 for its signatures, X25519 for what is encrypted to it."""

    sign: PublicKey
    seal: SealingKey


@dataclass(frozen=True)
class SharedMeasure:
    """What is added up in each cell, with bounds in units of 10^-`decimals`.

    Parameters
    ----------
    decimals : int
    least, most : int
        Of the figure of one cell at one holder.
    person : (int, int), optional
        What the part of one person in one cell is clipped to; needed with epsilon.
    """

    decimals: int
    least: int
    most: int
    person: tuple[int, int] | None = None

    @property
    def largest(self) -> int:
        """The greatest absolute figure of one cell at one holder."""
        return max(abs(self.least), abs(self.most))


@dataclass(frozen=True, kw_only=True)
class RunDocument:
    """A shared run, read and checked. All of it is public; `digest` covers all but the exchange folder.

    Parameters
    ----------
    nonce : str
        32 to 64 hex digits; it serves one run.
    exchange : Path
        A folder that all holders reach.
    holders : mapping of str to Holder
    dimensions : mapping of column to tuple of str
        All labels of each, so that a cell without records looks like any other.
    measures : mapping of str to SharedMeasure
        ``count`` and columns that are added up.
    person_id : str, optional
        Column of the contributors at every holder; default: records.
    writer : str, optional
        With `guarantees`: the holder who sees the exact joint cells, applies the guarantees and writes the table.
    rules : mapping
        `guarantees` and `suppress` as a policy has them; empty with epsilon.
    epsilon : Fraction, optional
    contribution_bound : int
        Cells in which a person counts, with epsilon.
    colluding : int
        Holders who may pool all they know without undoing the noise; default: all but one.
    """

    nonce: str
    exchange: Path
    holders: Mapping[str, Holder]
    dimensions: Mapping[str, tuple[str, ...]]
    measures: Mapping[str, SharedMeasure]
    person_id: str | None
    writer: str | None
    rules: Mapping[str, Any]
    epsilon: Fraction | None
    contribution_bound: int
    colluding: int
    digest: str

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a YAML file; the exchange folder is relative to it.

        Raises
        ------
        UsageError, PolicyError, SinkError
        """
        from privpipe.policy.plain_values import decoded, from_yaml

        place = Path(path)
        try:
            raw = place.read_bytes()
        except OSError as error:
            raise SinkError(f"the run document {str(path)!r} cannot be read: {error.strerror}") from None
        document, report = from_yaml(decoded(raw, place.name, "run document"), place.name)
        report.raise_if_wrong()
        return cls.of(document, place.parent)

    @classmethod
    def of(cls, document: Any, folder: Path = Path()) -> Self:
        """The run of a mapping with the keys of the YAML file.

        Raises
        ------
        UsageError, PolicyError
        """
        given = _mapping(document, "the document", REQUIRED, OPTIONAL)
        if given["version"] != VERSION or isinstance(given["version"], bool):
            raise _wrong("version", f"must be {VERSION}")
        if not isinstance(given["nonce"], str) or not NONCE.fullmatch(given["nonce"]):
            raise _wrong("nonce", "must be a text of 32 to 64 hex digits; `privpipe seed` makes one")
        if given["disjoint_persons"] is not True:
            raise _wrong(
                "disjoint_persons",
                "must be true: a person who is at several holders counts several times in sums of their tables, so no "
                "guarantee would count persons; link such persons before",
            )
        holders = _holders(given["holders"])
        epsilon = None if given.get("epsilon") is None else rational(given["epsilon"], "epsilon")
        rules = _rules(given, holders, epsilon)
        measures = {
            name: _measure(name, each, private=epsilon is not None)
            for name, each in _mapping(given["measures"], "measures", (COUNT,), None).items()
        }
        own = {
            "nonce": given["nonce"],
            "exchange": folder / (_text(given, "exchange") or "."),
            "holders": holders,
            "dimensions": _dimensions(given["dimensions"]),
            "measures": measures,
            "person_id": _text(given, "person_id"),
            "epsilon": epsilon,
            "digest": _digest({name: value for name, value in given.items() if name != "exchange"}),
            **rules,
        }
        found = cls(**own)
        found._check()
        return found

    @property
    def figures(self) -> tuple[str, ...]:
        """What is shared of each cell: the measures, and the contributors of each sum where rules count them."""
        if self.epsilon is not None:
            return tuple(self.measures)
        return tuple(
            each for name in self.measures for each in ((name,) if name == COUNT else (f"{name}{CONTRIBUTORS}", name))
        )

    @property
    def clipping(self) -> dict[str, tuple[Fraction, Fraction]]:
        """What the part of one person in one cell is clipped to, by column, in its own unit."""
        return {
            name: (Fraction(each.person[0], 10**each.decimals), Fraction(each.person[1], 10**each.decimals))
            for name, each in self.measures.items()
            if each.person is not None
        }

    @property
    def leaves(self) -> int:
        """Number of cells without totals."""
        return math.prod(map(len, self.dimensions.values()))

    @property
    def folder(self) -> Path:
        """Where the files of this run are exchanged."""
        return self.exchange / self.nonce

    def bounds(self, figure: str) -> tuple[int, int]:
        """Least and greatest figure of one cell at one holder."""
        found = self.measures[COUNT if figure.endswith(CONTRIBUTORS) else figure]
        return found.least, found.most

    def noise(self) -> PrivateNoise:
        """The noise that one holder adds for the persons of all; see `privpipe.sharing.additive_shares`."""
        return PrivateNoise(
            epsilon=self.epsilon,
            contribution_bound=self.contribution_bound,
            bounds={name: each.person for name, each in self.measures.items() if each.person is not None},
        )

    def require(self, holder: str) -> Holder:
        """The public keys of a holder.

        Raises
        ------
        UsageError
        """
        if holder not in self.holders:
            raise UsageError(f"the run has no holder {holder!r}{did_you_mean(holder, self.holders)}")
        return self.holders[holder]

    def policy(self, source: str, sink: str) -> Policy:
        """The policy by which the joint table is released.

        Raises
        ------
        PolicyError
            The guarantees are not sound.
        """
        from privpipe.policy import Policy

        responses = [
            COUNT if name == COUNT else {"sum": name, "decimals": each.decimals} for name, each in self.measures.items()
        ]
        aggregate = {"aggregate": {"tables": {TABLE: {"by": list(self.dimensions), "responses": responses}}}}
        columns: dict[str, Any] = {name: {"role": "quasi_identifier"} for name in self.dimensions}
        columns |= {name: {"role": "insensitive"} for name in self.figures}
        document: dict[str, Any] = {
            "version": 1,
            "name": TABLE,
            "columns": columns,
            "source": {"path": source},
            "sink": {"path": sink},
        }
        if self.epsilon is not None:
            asked = [{"differential_privacy": {"epsilon": float(self.epsilon), "delta": 1e-9}}]
            return Policy.from_dict({**document, "transform": [aggregate], "guarantees": asked})
        stages = [aggregate, {"suppress_table": self.rules["suppress"]}]
        found = Policy.from_dict({**document, "transform": stages, "guarantees": self.rules["guarantees"]})
        if found.tables is None:
            raise UsageError("guarantees: the joint table has none that judges cells")
        for rule in found.tables.guarantees:
            if rule.largest() or rule.holdings() or getattr(rule, "ledger", None) is not None:
                raise UnsupportedError(
                    f"{rule.name()} reads single contributions or persons, and shares hold only counts and sums of "
                    "cells; the joint table is judged by minimum_frequency, group_disclosure, differencing and "
                    "table_audit without a ledger"
                )
        return found

    def _check(self) -> None:
        shared = {*self.dimensions} & {*self.figures, self.person_id}
        if shared:
            raise _wrong("dimensions", f"{min(map(str, shared))!r} is a measure or the person too")
        if self.leaves > MOST_LEAVES:
            raise _wrong("dimensions", f"make {self.leaves:,} cells, and {MOST_LEAVES:,} are served; take fewer")
        for name, each in self.measures.items():
            if name.endswith(CONTRIBUTORS):
                raise _wrong(f"measures.{name}", f"must not end with {CONTRIBUTORS}, which names the persons of a sum")
            if len(self.holders) * self.leaves * each.largest >= MOST_TOTAL:
                raise _wrong(
                    f"measures.{name}.between",
                    f"over {len(self.holders)} holders and {self.leaves:,} cells the total could exceed 2^62 units; "
                    "declare narrower bounds, or fewer decimals",
                )
        if self.epsilon is None:
            self.policy("joint.parquet", TABLE)  # so that every holder sees what is wrong before anything is shared
        else:
            self.noise()


def _rules(given: Mapping[str, Any], holders: Mapping[str, Holder], epsilon: Fraction | None) -> dict[str, Any]:
    """Either guarantees and their writer, or epsilon and what belongs to it."""
    others = len(holders) - 1
    private, judged = ("epsilon", "contribution_bound", "colluding"), ("guarantees", "writer", "suppress")
    if (epsilon is None) == ("guarantees" not in given) or any(
        name in given for name in (judged, private)[epsilon is None]
    ):
        raise UsageError(
            f"a run has either {', '.join(judged)}, or {', '.join(private)}: without either its joint cells would be "
            "public as they are, and with both the rules would show what true figures are"
        )
    if epsilon is None:
        if given.get("writer") not in holders:
            raise _wrong("writer", "must be the holder who sees the exact joint cells and applies the guarantees")
        if len(holders) < LEAST_WRITTEN:
            raise _wrong(
                "holders", f"must be at least {LEAST_WRITTEN}: of two, the writer could subtract its own cells"
            )
        rules = {"guarantees": given["guarantees"], "suppress": given.get("suppress", {})}
        return {"writer": given["writer"], "rules": rules, "contribution_bound": 1, "colluding": others}
    bound, colluding = given.get("contribution_bound"), given.get("colluding", others)
    if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
        raise _wrong("contribution_bound", "must be the number of cells in which a person counts, at least 1")
    if isinstance(colluding, bool) or not isinstance(colluding, int) or not 1 <= colluding <= others:
        raise _wrong("colluding", f"must be from 1 (a holder knows its own noise) to {others}")
    return {"writer": None, "rules": {}, "contribution_bound": bound, "colluding": colluding}


def _holders(given: Any) -> dict[str, Holder]:
    found = {}
    for name, keys in _mapping(given, "holders", (), None).items():
        if not NAME.fullmatch(name):
            raise _wrong("holders", f"{name!r} must be of small letters, digits, - and _: it names files")
        own = _mapping(keys, f"holders.{name}", ("sign", "seal"), ())
        found[name] = Holder(PublicKey.of(str(own["sign"])), SealingKey.of(str(own["seal"])))
    if len(found) < 2:
        raise _wrong("holders", "must be at least 2")
    if len({each.sign for each in found.values()}) < len(found) or len({e.seal for e in found.values()}) < len(found):
        raise _wrong("holders", "have the same key twice; each holder has its own")
    return found


def _dimensions(given: Any) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, labels in _mapping(given, "dimensions", (), None).items():
        texts = [str(each) for each in labels if type(each) in (str, int)] if isinstance(labels, list) else []
        if not texts or len(texts) < len(labels) or len(set(texts)) < len(texts) or "Total" in texts:
            raise _wrong(
                f"dimensions.{name}", "must list all its labels, distinct texts or whole numbers, none of them Total"
            )
        found[name] = tuple(texts)
    if not found:
        raise _wrong("dimensions", "must name at least one column with its labels")
    return found


def _measure(name: str, given: Any, *, private: bool) -> SharedMeasure:
    own = _mapping(given, f"measures.{name}", ("between",), () if name == COUNT else ("decimals", "person"))
    decimals = own.get("decimals", 0)
    if isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= 9:
        raise _wrong(f"measures.{name}.decimals", "must be a whole number from 0 to 9")
    if private and name != COUNT and "person" not in own:
        raise _wrong(f"measures.{name}.person", "must be what a person's part of a cell is clipped to, as in [0, 5000]")
    pairs: dict[str, tuple[int, int]] = {}
    for key in ("between", "person"):
        if key in own:
            pair = own[key]
            if not isinstance(pair, list) or len(pair) != 2:
                raise _wrong(f"measures.{name}.{key}", "must be [least, most]")
            ends = [rational(each, f"measures.{name}.{key}") * 10**decimals for each in pair]
            if any(each.denominator != 1 for each in ends) or not ends[0] < ends[1]:
                raise _wrong(f"measures.{name}.{key}", f"must ascend, with at most {decimals} decimals")
            pairs[key] = int(ends[0]), int(ends[1])
    if name == COUNT and pairs["between"][0] != 0:
        raise _wrong("measures.count.between", "must begin at 0")
    return SharedMeasure(decimals, *pairs["between"], pairs.get("person") if private else None)


def _mapping(given: Any, what: str, required: tuple[str, ...], more: tuple[str, ...] | None) -> dict[str, Any]:
    """A mapping with these keys; None: with any others too."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise _wrong(what, "must be a mapping of names")
    for key in required:
        if key not in given:
            raise _wrong(what, f"lacks {key!r}")
    for key in given if more is not None else ():
        if key not in (*required, *(more or ())):
            raise _wrong(what, f"has an unknown key {key!r}{did_you_mean(key, (*required, *(more or ())))}")
    return dict(given)


def _text(given: Mapping[str, Any], key: str) -> str | None:
    found = given.get(key)
    if key in given and (not isinstance(found, str) or not found):
        raise _wrong(key, "must be a text")
    return found


def _wrong(place: str, why: str) -> PolicyError:
    return PolicyError([Problem(place, why, "run document")])


def _digest(given: Mapping[str, Any]) -> str:
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
