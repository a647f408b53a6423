"""The whole pipeline, from files to a judged release: what must change nothing, and what may only lower a risk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.errors import NoSolutionError, Refused
from tests.tiers import deep

ZIPS = ("8021", "8037", "8100", "9000")
COLUMNS: Mapping[str, Any] = {
    "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
    "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [10, 40]}}},
    "ill": {"role": "sensitive"},
    "income": {"role": "insensitive"},
}
GIVEN: Mapping[str, Any] = {"generalize": {"levels": {"zip": 2, "age": 1}, "suppress_at_most": 1.0}}
SEARCHED: Mapping[str, Any] = {"generalize": {"suppress_at_most": 0.2}}
SWAPPED: Mapping[str, Any] = {"rank_swap": {"columns": ["income"], "p": 0.3}}
Stages = tuple[Mapping[str, Any], ...]
FIGURES = ("records", "suppressed_records", "classes", "guarantees", "measures")

cells = st.fixed_dictionaries(
    {
        "zip": st.sampled_from([*ZIPS, None]),
        "age": st.integers(18, 79),
        "ill": st.sampled_from(["flu", "cold", "gout"]),
        "income": st.integers(10, 99).map(float),
    }
)
tables = st.lists(cells, min_size=12, max_size=40).map(lambda rows: pd.DataFrame(rows, columns=list(COLUMNS)))
few = settings(max_examples=8)


@dataclass(frozen=True)
class Ended:
    """What readers see of a run."""

    rows: Counter[tuple[Any, ...]] | None
    in_order: list[tuple[Any, ...]] = field(compare=False)
    figures: Mapping[str, Any]
    columns: tuple[str, ...] = field(compare=False)


def document(
    *stages: Mapping[str, Any], columns: Mapping[str, Any] = COLUMNS, k: int = 2, **more: Any
) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "metamorphic",
        "columns": dict(columns),
        "transform": list(stages),
        "guarantees": [{"k_anonymity": {"k": k}}, {"distinct_l_diversity": {"column": "ill", "l": 1}}],
        "measures": [{"average_risk": {}}, {"prosecutor_risk": {}}],
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
    }


def ended(policy: Mapping[str, Any], source: Mapping[str, Any], place: Path, engine: str = "embedded") -> Ended:
    """Release, or be refused."""
    made = pp.Policy.from_dict({**policy, "source": dict(source), "engine": engine}, base_dir=place)
    target = place / "released"
    try:
        judged = pp.release(made, target=str(target)).assessment
    except NoSolutionError:
        return Ended(None, [], {}, ())
    except Refused as refused:
        judged = refused.assessment
    found = judged.to_dict()
    rows: list[tuple[Any, ...]] = []
    names: tuple[str, ...] = ()
    if target.exists():
        released = pq.read_table(target)
        names = tuple(released.column_names)
        rows = [tuple(row[name] for name in sorted(row)) for row in released.to_pylist()]
    return Ended(Counter(rows) if names else None, rows, {name: found[name] for name in FIGURES}, names)


KINDS = {"zip": pa.string(), "age": pa.int64(), "ill": pa.string(), "income": pa.float64()}


def parquet(frames: Sequence[pd.DataFrame], place: Path, **options: Any) -> dict[str, Any]:
    """Files of a folder, one a frame."""
    (place / "source").mkdir()
    for at, frame in enumerate(frames):
        schema = pa.schema([(name, KINDS[name]) for name in frame])
        rows = pa.Table.from_pandas(frame, schema, preserve_index=False)
        pq.write_table(rows, place / "source" / f"{at}.parquet", **options)
    return {"path": str(place / "source"), "format": "parquet"}


def csv(frame: pd.DataFrame, place: Path, missing: str) -> dict[str, Any]:
    """One file in which a word represents a missing value."""
    frame.to_csv(place / "source.csv", index=False, na_rep=missing)
    return {"path": str(place / "source.csv"), "format": "csv", "null_values": [missing]}


def once(policy: Mapping[str, Any], write: Callable[[Path], Mapping[str, Any]], engine: str = "embedded") -> Ended:
    with TemporaryDirectory() as folder:
        return ended(policy, write(Path(folder)), Path(folder), engine)


@pytest.mark.parametrize(
    "stages", [deep((SEARCHED,)), (GIVEN,), deep((GIVEN, SWAPPED))], ids=["searched", "given", "swapped"]
)
@few
@given(tables, st.randoms(use_true_random=False))
def test_how_a_table_is_in_files_changes_nothing(
    stages: tuple[Mapping[str, Any], ...], frame: pd.DataFrame, draw: Any
) -> None:
    policy = document(*stages)
    cut, order, names = draw.randint(1, len(frame) - 1), list(range(len(frame))), list(frame.columns)
    draw.shuffle(order)
    draw.shuffle(names)
    mixed = frame.iloc[order]
    as_it_is = once(policy, lambda place: parquet([frame], place))
    assert once(policy, lambda place: parquet([mixed.iloc[:cut], mixed.iloc[cut:]], place)) == as_it_is
    assert once(policy, lambda place: parquet([mixed[names]], place, row_group_size=3)) == as_it_is


@pytest.mark.deep
@few
@given(tables)
def test_how_a_missing_value_is_written_changes_nothing(frame: pd.DataFrame) -> None:
    types = {"zip": "text", "age": "integer", "ill": "text", "income": "number"}
    columns = {name: {**spec, "type": types[name]} for name, spec in COLUMNS.items()}
    policy = document(GIVEN, columns=columns)
    empty = once(policy, lambda place: csv(frame, place, ""))
    assert once(policy, lambda place: csv(frame, place, "N/A")) == empty
    assert once(policy, lambda place: parquet([frame], place)) == empty


@pytest.mark.deep
@few
@given(tables)
def test_names_of_columns_change_no_figure(frame: pd.DataFrame) -> None:
    renamed = {"zip": "Ort", "age": "Alter", "income": "Lohn"}
    columns = {renamed.get(name, name): spec for name, spec in COLUMNS.items()}
    levels = {"generalize": {"levels": {"Ort": 2, "Alter": 1}, "suppress_at_most": 1.0}}
    kinds = {renamed.get(name, name): kind for name, kind in KINDS.items()}
    as_it_is = once(document(GIVEN), lambda place: parquet([frame], place))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "KINDS", kinds)
        other = once(document(levels, columns=columns), lambda place: parquet([frame.rename(columns=renamed)], place))
    assert plain(other.figures, renamed) == plain(as_it_is.figures, renamed)
    if as_it_is.rows is None:
        assert other.rows is None
    else:
        by_name = Counter(tuple(map(str, sorted(map(str, row)))) for row in as_it_is.in_order)
        assert Counter(tuple(map(str, sorted(map(str, row)))) for row in other.in_order) == by_name


def plain(figures: Mapping[str, Any], renamed: Mapping[str, str]) -> Any:
    """Figures as text, the new names as the old ones."""
    text = repr(figures)
    for old, new in renamed.items():
        text = text.replace(new, old)
    return text


@pytest.mark.deep
@few
@given(tables, st.integers(0, 3), st.integers(0, 1))
def test_coarser_levels_never_raise_a_risk(frame: pd.DataFrame, zips: int, ages: int) -> None:
    def judged(*levels: int) -> dict[str, float]:
        chosen = dict(zip(("zip", "age"), levels, strict=True))
        # k = 1: nothing fails, so that no record is suppressed and the levels alone differ.
        stage = {"generalize": {"levels": chosen}}
        made = once(document(stage, k=1), lambda place: parquet([frame], place)).figures
        found = {each["name"]: each["observed"] for each in (*made["guarantees"], *made["measures"])}
        return {"k": -found["k_anonymity"], "average": found["average_risk"], "unique": found["prosecutor_risk"]}

    finer = judged(zips, ages)
    for coarser in (judged(zips + 1, ages), judged(zips, ages + 1)):
        assert all(coarser[name] <= finer[name] + 1e-12 for name in finer)


@few
@given(tables, st.integers(1, 30))
def test_suppressed_rows_never_rescue_a_failing_class(frame: pd.DataFrame, more: int) -> None:
    texts = frame.assign(zip=frame["zip"].fillna("none"), age=frame["age"].astype(str))
    alone = {"zip": "7777", "age": "18", "ill": "flu", "income": 1.0}
    hidden = {"zip": "*", "age": "*", "ill": "cold", "income": 2.0}
    failing = pd.concat([texts, pd.DataFrame([alone])], ignore_index=True)
    padded = pd.concat([failing, pd.DataFrame([hidden] * more)], ignore_index=True)
    columns = {name: {"role": spec["role"]} for name, spec in COLUMNS.items()}
    policy = document(columns=columns)
    for table in (failing, padded):
        judged = pp.validate(table, policy)
        assert not judged.passed
        assert {row["name"]: row["observed"] for row in judged.to_dict()["guarantees"]}["k_anonymity"] == 1


@pytest.mark.parametrize("stages", [(GIVEN, SWAPPED), deep((GIVEN,))], ids=["swapped", "given"])
@few
@given(tables)
def test_what_was_published_is_judged_as_it_was(stages: Stages, frame: pd.DataFrame) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        found = ended(document(*stages), parquet([frame], place), place)
        if found.rows is None:
            return
        kinds = {name: {"type": "text"} if name in ("zip", "age") else {} for name in COLUMNS}
        columns = {name: {"role": spec["role"], **kinds[name]} for name, spec in COLUMNS.items()}
        again = pp.validate(str(place / "released"), document(columns=columns)).to_dict()
    for name in ("records", "classes", "measures"):
        assert again[name] == found.figures[name]
    before, after = (
        {row["name"]: (row["outcome"], row["observed"]) for row in each["guarantees"]}
        for each in (found.figures, again)
    )
    assert after.items() <= before.items()
