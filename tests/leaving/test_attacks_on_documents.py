"""What was once taken from the documents next to the data: strata, places of blanks, who was in the source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.transforms.local_suppression.suppress_cells_stage import combinations_digest
from privpipe.transforms.strata import stratum_keys

LEVELS = {"redact": {"keep": "left", "length": 5}}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its place; places in lists by number."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{path}.{key}")
    else:
        yield path, value


def published(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (folder / "_privpipe").glob("*.json")}


def release(folder: Path, frame: pd.DataFrame, engine: Engine, **policy: Any) -> pp.ReleaseResult:
    folder.mkdir(exist_ok=True)
    frame.to_parquet(folder / "rows.parquet", index=False)
    base = {"version": 1, "source": {"path": "rows.parquet"}, "sink": {"path": "out"}}
    document = {**base, "seed": {"from_env": "PRIVPIPE_TEST_SEED"}, **policy}
    return pp.release(pp.Policy.from_dict(document, base_dir=folder), engine=engine)


def test_strata_are_not_found_by_trying_every_zip_code(engine: Engine, tmp_path: Path) -> None:
    """Forty zip codes, two persons each, masked by zip code; only the first digit is released."""
    codes = [f"{10007 + 1499 * at % 89989}" for at in range(40)]
    frame = pd.DataFrame({"zip": codes * 2, "income": [1000.0 + 313 * at % 977 for at in range(80)]})
    result = release(
        tmp_path,
        frame,
        engine,
        columns={
            "zip": {"role": "quasi_identifier", "hierarchy": LEVELS},
            "income": {"role": "insensitive"},
        },
        transform=[
            {"add_noise": {"columns": ["income"], "variance_ratio": 0.5, "by": ["zip"]}},
            {"generalize": {"levels": {"zip": 4}}},
        ],
        guarantees=[{"k_anonymity": {"k": 3}}],
    )
    tried = set(stratum_keys(pa.table({"zip": [f"{at:05d}" for at in range(100_000)]})).tolist())
    strata = result.plan.stages[0].detail["strata"]
    assert len(strata["keys"]) == 40
    told = [value for _, value in leaves(published(Path(result.path)))]
    for document in (told, strata["keys"]):  # nor in the private plan, without the seed
        assert not tried & {value for value in document if isinstance(value, int)}
    moments = frame.groupby("zip")["income"].agg(["mean", "std"]).to_numpy().ravel().round(6).tolist()
    assert not set(moments) & {round(float(value), 6) for value in told if isinstance(value, float)}


def test_places_of_blanked_combinations_are_not_told(engine: Engine, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": [*[20 + at % 7 for at in range(210)], 61, 62, 63, 64],
            "sex": [*["fm"[at // 7 % 2] for at in range(210)], *"ffmm"],
        }
    )
    result = release(
        tmp_path,
        frame,
        engine,
        columns={name: {"role": "quasi_identifier"} for name in ("age", "sex")},
        transform=[{"suppress_cells": {"k": 3}}],
        guarantees=[{"k_anonymity": {"k": 3}}],
    )
    detail = result.plan.stages[0].detail
    assert detail["blanks"]
    documents = published(Path(result.path))
    assert documents["plan"]["stages"][0]["detail"] == {}
    distinct = engine.distinct(engine.scan(Source(data=frame)), detail["keys"])
    guess = combinations_digest(distinct, detail["keys"])
    assert guess not in [value for _, value in leaves(documents)]
    assert guess != detail["combinations"]


ONE_PERSON = pd.DataFrame({"zip": ["99999"], "ill": ["gout"]})


def towns(records: int = 300) -> pd.DataFrame:
    return pd.DataFrame(
        {"zip": [["80210", "80370"][at % 2] for at in range(records)], "ill": ["flu"] * (records // 2) * 2}
    )


OF_DOCUMENTS = {".manifest.documents.verdict", ".manifest.documents.plan", ".manifest.checksum"}
"""Hashes of public documents in which something may differ."""


def test_nothing_decides_whether_a_suppressed_person_was_there(engine: Engine, tmp_path: Path) -> None:
    """Another person instead of this one leaves the documents as they are; so do hashes of the values seen."""
    others = [ONE_PERSON, ONE_PERSON.assign(zip="11111", ill="cold")]
    found = []
    for at, person in enumerate(others):
        result = release(
            tmp_path / str(at),
            pd.concat([towns(), person]),
            engine,
            columns={
                "zip": {"role": "quasi_identifier", "hierarchy": LEVELS},
                "ill": {"role": "insensitive"},
            },
            transform=[{"generalize": {"suppress_at_most": 0.05}}],
            guarantees=[{"k_anonymity": {"k": 5}}],
        )
        assert result.plan.suppressed_records == 1
        found.append(dict(leaves(published(Path(result.path)))))
    differing = {
        place.rsplit(".", 1)[-1] for place in set(found[0]) - OF_DOCUMENTS if found[0][place] != found[1][place]
    }
    bound = {"run_id", "created", "seed_commitment", "private_plan", "fingerprint", "sha256", "bytes", "seal"}
    assert found[0].keys() == found[1].keys()
    assert differing <= bound


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_differential_privacy_counts_nothing_but_released_rows(engine: Engine, tmp_path: Path, epsilon: float) -> None:
    """Sources of 300, 301 and 600 records: what differs follows from the released rows, or is bound to the run."""
    found = []
    for at, frame in enumerate((towns(), pd.concat([towns(), ONE_PERSON]), towns(600))):
        result = release(
            tmp_path / str(at),
            frame[["zip"]],
            engine,
            columns={"zip": {"role": "quasi_identifier", "hierarchy": LEVELS}},
            transform=[{"safepub": {"epsilon": epsilon, "delta": 0.1}}],
            guarantees=[{"differential_privacy": {"epsilon": epsilon, "delta": 0.1}}],
            measures=[{"estimated_k_map": {"population_size": 10**6, "significance": 0.05}}],
        )
        found.append((result, dict(leaves(published(Path(result.path))))))
    rows = {".verdict.records", ".manifest.output.records", ".verdict.classes"}
    bound = {"run_id", "created", "seed_commitment", "private_plan", "fingerprint", "sha256", "bytes", "seal"}
    for result, document in found:
        assert document.keys() == found[0][1].keys()
        differing = {place for place in set(document) - OF_DOCUMENTS if document[place] != found[0][1][place]}
        compared = {place for place in differing if ".compared." in place}  # the released records, which were judged
        assert all(document[place] == document[".verdict.records"] for place in compared)
        differing -= compared
        assert {place for place in differing if place.rsplit(".", 1)[-1] not in bound} <= rows
        assert document[".verdict.records"] == result.assessment.records
        counts = {result.plan.records, result.plan.suppressed_records, result.assessment.suppressed_records}
        assert not {value for value in document.values() if type(value) is int} & (counts - {0, 1})
    assert len({document[".verdict.records"] for _, document in found}) > 1


def test_what_is_logged_under_differential_privacy_counts_nothing(
    tmp_path: Path, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    for at, frame in enumerate((towns(), towns(600))):
        caplog.clear()
        with caplog.at_level("INFO", logger="privpipe"):
            release(
                tmp_path / str(at),
                frame[["zip"]],
                engine,
                columns={"zip": {"role": "quasi_identifier", "hierarchy": LEVELS}},
                transform=[{"safepub": {"epsilon": 1.0, "delta": 0.1}}],
                guarantees=[{"differential_privacy": {"epsilon": 1.0, "delta": 0.1}}],
            )
        said.append([record.getMessage() for record in caplog.records if record.levelname != "DEBUG"])
    assert said[0] == said[1] != []
