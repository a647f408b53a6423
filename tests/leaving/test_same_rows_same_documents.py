"""Sources that give the same released rows give the same public documents: nothing else of a source is in them."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine

Frame = pd.DataFrame
BOUND_TO_THE_RUN = ("run_id", "created", "seed_commitment", "private_plan", "fingerprint", "seal")
OF_DOCUMENTS = ("documents", "checksum")
"""Hashes of public documents that hold these."""
ALLOWED_COUNTS = ("suppressed_records",)
OF_FILES = ("bytes", "sha256")
"""Rows are in an order of the run's own, so that equal rows do not make equal files."""


def visible(records: int = 240) -> Frame:
    """Records that every source holds: three towns, ages in bands, no one rare."""
    return Frame(
        {
            "name": [f"person {at}" for at in range(records)],
            "zip": [["8021", "8037", "9000"][at % 3] for at in range(records)],
            "age": [20 + 10 * (at // 3 % 3) + at // 9 % 10 for at in range(records)],
            "ill": [["flu", "cold", "gout", "asthma"][at // 9 % 4] for at in range(records)],
            "income": [1000.0 + 7 * at for at in range(records)],
        }
    )


def more(records: int, **cells: Any) -> Frame:
    """Records on top, whose names sort among the others."""
    base = {"name": [f"person {at}x" for at in range(records)], "ill": "gout", "income": 77.5, "age": 25, "zip": "8021"}
    return Frame({**base, **cells}).astype({"age": "int64"})


def shuffled(frame: Frame, seed: int) -> Frame:
    return frame.sample(frac=1.0, random_state=seed)


def suppressed() -> tuple[Frame, Frame]:
    one = pd.concat([visible(), more(2, zip=["1111", "2222"])])
    return one, shuffled(pd.concat([visible(), more(7, zip=[f"{at}333" for at in range(7)], income=5e5)]), 1)


def merged() -> tuple[Frame, Frame]:
    """Ages differ inside their bands, incomes everywhere; rare records come and go."""
    other = visible()
    other["age"] = other["age"] // 10 * 10 + (other["age"] * 3 + 1) % 10
    other["income"] = 3e4 - 11 * other["income"]
    return visible(), shuffled(pd.concat([other, more(3, age=[97, 98, 99], zip=["1111", "2222", "3333"])]), 2)


def blanked() -> tuple[Frame, Frame]:
    bands = visible().assign(age=lambda frame: frame["age"] // 10 * 10)
    return (
        pd.concat([bands, more(3, age=[71, 72, 73])]),
        shuffled(pd.concat([bands, more(3, age=[11, 84, 92])]), 3),
    )


def overwritten() -> tuple[Frame, Frame]:
    """Every income differs, and none is seen; the strata it is masked in are of other sizes as well."""
    other = visible()
    other["income"] = [float((at * 7919) % 10007) for at in range(len(other))]
    return visible(), shuffled(pd.concat([other, more(2, zip=["1111", "2222"], income=4e5)]), 4)


SUPPRESS = {"suppress_records": {"suppress_at_most": 0.1}}
HIDDEN: list[dict[str, Any]] = [
    {"add_noise": {"columns": ["income"], "variance_ratio": 0.1, "by": ["zip"], "small_strata": "merge"}},
    {"rank_swap": {"columns": ["income"], "p": 0.2}},
    {"top_code": {"columns": ["income"], "quantile": 0.9}},
    {"microaggregate": {"columns": ["income"], "k": 4}},
    {"round": {"columns": ["income"], "base": 10**9}},
    SUPPRESS,
]
ERASED: list[dict[str, Any]] = [{"round": {"columns": ["income"], "base": 10**9}}]
PAIRS: dict[str, tuple[Callable[[], tuple[Frame, Frame]], list[dict[str, Any]]]] = {
    "suppressed": (suppressed, [*ERASED, SUPPRESS]),
    "merged": (merged, [*ERASED, {"generalize": {"suppress_at_most": 0.1}}]),
    "blanked": (blanked, [*ERASED, {"suppress_cells": {"k": 3}}]),
    "overwritten": (overwritten, HIDDEN),
}


def policy(folder: Path, stages: list[dict[str, Any]]) -> dict[str, Any]:
    bands = {"intervals": {"start": 0, "widths": [10, 100]}}
    generalized = any("generalize" in stage for stage in stages)
    return {
        "version": 1,
        "name": "pair",
        "source": {"path": "rows.parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "zip": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier", **({"hierarchy": bands} if generalized else {})},
            "ill": {"role": "sensitive"},
            "income": {"role": "insensitive"},
        },
        "record_id": "name",
        "transform": stages,
        "guarantees": [
            {"k_anonymity": {"k": 3 if generalized or "suppress_cells" in stages[-1] else 2}},
            {"distinct_l_diversity": {"column": "ill", "l": 1}},
            {"t_closeness": {"column": "ill", "t": 0.99}},
        ],
        "measures": [
            {"average_risk": {}},
            {"attribute_inference": {"column": "ill"}},
            {"estimated_k_map": {"population_size": 9000, "significance": 0.05}},
        ],
        "sink": {"path": "out"},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


def released(tmp_path: Path, name: str, at: int, engine: Engine | None = None) -> tuple[Frame, Any]:
    """One source of a pair and its release; both policies are the same text in folders of their own."""
    make, stages = PAIRS[name]
    folder = tmp_path / str(at)
    folder.mkdir()
    source = make()[at]
    source.to_parquet(folder / "rows.parquet", index=False)
    return source, pp.release(pp.Policy.from_dict(policy(folder, stages), base_dir=folder), engine=engine)


def rows(folder: Path) -> Frame:
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))])


def public(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (folder / "_privpipe").glob("*.json")}


def told(value: Any) -> Any:
    """A document without what may differ."""
    if isinstance(value, dict):
        gone = (*BOUND_TO_THE_RUN, *ALLOWED_COUNTS, *OF_FILES, *OF_DOCUMENTS)
        kept = {key: told(item) for key, item in value.items() if key not in gone}
        if "input" in kept:
            kept["input"].pop("records")
        return kept
    return [told(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", list(PAIRS))
def test_the_same_rows_give_the_same_documents(name: str, engine: Engine, tmp_path: Path) -> None:
    results = [released(tmp_path, name, at, engine)[1] for at in (0, 1)]
    tables = [Counter(map(repr, rows(Path(result.path)).to_dict("records"))) for result in results]
    assert tables[0] == tables[1]
    assert results[0].plan.digest != results[1].plan.digest
    documents = [public(Path(result.path)) for result in results]
    assert told(documents[0]) == told(documents[1])
    names = [sorted(path.name for path in Path(result.path).iterdir()) for result in results]
    assert names[0] == names[1]


def numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("name", list(PAIRS))
def test_no_figure_of_the_source_is_reported(name: str, tmp_path: Path) -> None:
    source, result = released(tmp_path, name, 1)
    seen = {round(float(number), 9) for number in numbers(told(public(Path(result.path))))}
    income = source["income"]
    groups = [income, *(each["income"] for _, each in source.groupby("zip"))]
    figures = [f(each) for each in groups for f in (pd.Series.mean, pd.Series.std, pd.Series.max, pd.Series.median)]
    shares, theirs = (frame["ill"].value_counts(normalize=True) for frame in (source, rows(Path(result.path))))
    own = set(shares) - set(theirs)
    assert not seen & {round(float(figure), 9) for figure in [*figures, *own, *income.quantile([0.1, 0.9])]}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def guesses(source: Frame) -> Iterator[bytes]:
    """What an attacker who knows the whole source can write down: values, combinations, rows, columns, the file."""
    columns = list(source)
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, size):
            cells = source[list(chosen)].drop_duplicates().astype(str)
            for separator in ("", ",", "|", "\0"):
                yield from (separator.join(row).encode() for row in cells.itertuples(index=False))
                yield separator.join(sorted(separator.join(row) for row in cells.itertuples(index=False))).encode()
    yield source.to_csv(index=False).encode()


KEYS = (b"", b"privpipe", b"privpipe/strata", b"privpipe/class keys", b"privpipe/commitment/1", b"id")


@pytest.mark.parametrize("name", list(PAIRS))
def test_every_hash_is_of_what_is_public_or_under_the_seed(name: str, tmp_path: Path) -> None:
    source, result = released(tmp_path, name, 0)
    documents, folder = public(Path(result.path)), Path(result.path)
    found = {hit for text in strings(documents) for hit in re.findall(r"[0-9a-f]{16,}", text)}

    def digest(document: Any) -> str:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    manifest = documents["manifest"]
    explained = {digest(manifest["policy"]), digest(documents["plan"])}
    explained |= {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}
    explained |= {
        hashlib.sha256((folder / f"_privpipe/{x}.json").read_bytes()).hexdigest() for x in ("verdict", "plan")
    }
    explained |= {digest({key: value for key, value in manifest.items() if key != "checksum"})}
    keyed = [
        manifest["seed_commitment"],
        manifest["private_plan"],
        manifest["input"]["fingerprint"],
        manifest["seal"],
    ]
    assert all(text.startswith("hmac-sha256:") for text in keyed)
    assert found == explained | {text.partition(":")[2] for text in keyed}
    run_id = manifest["run_id"].encode()
    for guess in guesses(source):
        tried = {hashlib.sha256(guess).hexdigest(), hashlib.md5(guess, usedforsecurity=False).hexdigest()}
        tried |= {hmac.new(key, guess, hashlib.sha256).hexdigest() for key in (*KEYS, run_id)}
        assert not found & tried
