"""What a verdict notes of a table though no guarantee asked, on every face, once, and in one order."""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.judging.notes import folded
from tests.tiers import deep
from tests.validated_frames import batch_of

COLUMNS: dict[str, Any] = {
    "zip": {"role": "quasi_identifier"},
    "illness": {"role": "sensitive"},
    "pay": {"role": "insensitive"},
}
GUARANTEES = [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}]
POLICY: dict[str, Any] = {"version": 1, "columns": COLUMNS, "guarantees": GUARANTEES}
OWN = "100 % of the records have a value of `pay` of their own: anyone who knows that value finds the record"


def table(**cells: list[Any]) -> pd.DataFrame:
    whole = {"zip": list("aaabbb"), "illness": ["flu", "cold", "gout"] * 2, "pay": [1, 1, 2, 2, 3, 3]}
    return pd.DataFrame({**whole, **cells})


def noted(engine: Engine, frame: Any, policy: dict[str, Any] | None = None) -> list[str]:
    return list(pp.assess(frame, policy or POLICY, engine=engine).notes)


def spelled(engine: Engine, frame: Any) -> list[str]:
    """Notes on spelling and missing values alone: tiny tables are near-unique as well."""
    return [note for note in noted(engine, frame) if "of their own" not in note]


class TestNearUnique:
    @pytest.mark.parametrize("held", [0, deep(200_000)], ids=["in place", "on the driver"])
    @pytest.mark.parametrize(
        ("pay", "said"),
        [
            ([1, 2, 3, 4, 5, 6], OWN),
            ([1, 2, 3, 4, 5, 5], OWN.replace("100 %", "66.6 %")),
            ([1, 2, 3, 4, 4, 4], ""),  # half of them is not more than half
            ([1.5, 2.5, 3.5, 4.5, None, None], OWN.replace("100 %", "66.6 %")),
            ([1.5, 2.5, 3.5, None, 4.5, 4.5], ""),  # a missing value is not unique to anyone
            (["1", "2", "3", "4", None, "5"], OWN.replace("100 %", "83.3 %")),
        ],
    )
    def test_more_than_half_have_a_value_of_their_own(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch, pay: list[Any], said: str, held: int
    ) -> None:
        monkeypatch.setattr(importlib.import_module("privpipe.judging.notes"), "HELD", held)
        assert noted(engine, table(pay=pay)) == ([said] if said else [])

    def test_suppressed_records_have_none(self, embedded: Engine) -> None:
        blank = pd.DataFrame({"zip": ["*"] * 4, "illness": ["*"] * 4, "pay": ["*"] * 4})
        whole = pd.concat([table(pay=list("123456")), blank])
        assert noted(embedded, whole) == [OWN]

    def test_households_share_theirs(self, engine: Engine) -> None:
        """Three homes, each with one pay of its own that its members share."""
        columns = {**COLUMNS, "home": {"role": "insensitive"}, "w": {"role": "insensitive"}}
        risk = {"individual_risk": {"weight": "w", "household": "home", "quasi_identifiers": ["zip"]}}
        policy = {**POLICY, "columns": columns, "measures": [risk]}
        frame = table(pay=[7, 7, 8, 8, 9, 9]).assign(home=list("xxyyzz"), w=[1.0] * 6)
        said = OWN.replace("of their own:", "of their own or of their household's:")
        assert said in noted(engine, frame, policy)
        assert not [note for note in noted(engine, frame.assign(pay=[7, 7, 8, 8, 8, 9]), policy) if "`pay`" in note]

    def test_quasi_identifiers_and_pseudonyms_are_not_named(
        self, embedded: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PRIVPIPE_TEST_KEY", "7c" * 32)
        stage = {"pseudonymise": {"columns": ["pay"], "key": {"from_env": "PRIVPIPE_TEST_KEY"}, "domain": "tests"}}
        columns = {**COLUMNS, "pay": {"role": "identifier"}}
        frame = table(pay=list("123456"))
        assert noted(embedded, frame, {**POLICY, "columns": columns, "transform": [stage]}) == []
        columns["pay"] = {"role": "quasi_identifier"}
        asked = {"k_anonymity": {"k": 1, "quasi_identifiers": ["zip"]}}
        found = noted(embedded, frame, {**POLICY, "columns": columns, "guarantees": [asked, GUARANTEES[1]]})
        assert not [note for note in found if "of their own" in note]

    @pytest.mark.parametrize(("alone", "said"), [(5002, True), (5000, False)])
    def test_what_an_estimate_leaves_is_counted(self, engine: Engine, alone: int, said: bool) -> None:
        """One pair of records decides among 10,000, where an estimate is off by hundreds."""
        pay = [*range(alone), *(-1 - row // 2 for row in range(10_000 - alone))]
        frame = pd.DataFrame({"zip": ["a"] * 10_000, "illness": ["flu", "cold"] * 5000, "pay": pay})
        assert bool(noted(engine, frame)) is said


class TestSpelling:
    def test_the_figure_after_folding(self, engine: Engine) -> None:
        frame = table(illness=["Flu", "flu ", "FLU", "cold", "gout", "flu"])
        assert spelled(engine, frame) == [
            "`illness` has 6 values, 3 of them apart from spelling; after folding distinct_l_diversity observed 1"
        ]

    def test_unicode_forms_are_folded(self, engine: Engine) -> None:
        frame = table(illness=["Go\u00fbt", "gou\u0302t", "cold", "gout", "flu", "\uff46\uff4c\uff55"])
        [note] = spelled(engine, frame)
        assert note.startswith("`illness` has 6 values, 4 of them apart from spelling")
        assert "observed 2" in note

    def test_values_that_differ_are_left_alone(self, engine: Engine) -> None:
        assert spelled(engine, table(illness=["a b", "a  b", "ab", "\u0131", "i", "j"])) == []

    def test_missing_values_count_towards_l(self, engine: Engine) -> None:
        frame = table(illness=["flu", "flu", None, "cold", "gout", "flu"])
        assert spelled(engine, frame) == [
            "`illness` has missing values, which count as a value; without them distinct_l_diversity observed 1"
        ]

    def test_numbers_too(self, engine: Engine) -> None:
        frame = table(illness=[1.5, 1.5, None, None, None, None])
        [note] = spelled(engine, frame)
        assert note.endswith("observed 1")

    @pytest.mark.parametrize("entry", ["distinct_l_diversity", "entropy_l_diversity", "recursive_cl_diversity"])
    def test_missing_values_against_the_definition(self, embedded: Engine, entry: str) -> None:
        rng = np.random.default_rng(5)
        for _ in range(20):
            values = [[None, "a", "b", "c"][code] for code in rng.integers(0, 4, 12)]
            frame = pd.DataFrame({"zip": [str(code) for code in rng.integers(0, 3, 12)], "illness": values, "pay": 1})
            asked = {entry: {"column": "illness", **({"l": 2, "c": 4} if entry[0] == "r" else {"l": 1})}}
            notes = noted(embedded, frame, {**POLICY, "guarantees": [asked]})
            told = [note for note in notes if "missing values" in note]
            assert bool(told) is (None in values)
            if told:
                shown = told[0].rpartition("observed ")[2]
                assert shown == _without_missing(entry, frame)

    def test_persons_are_folded_too(self, engine: Engine) -> None:
        columns = {**COLUMNS, "who": {"role": "insensitive"}}
        frame = table().assign(who=["Ann", "ann ", "bob", "cy", "di", "ed"])
        found = noted(engine, frame, {**POLICY, "columns": columns, "person_id": "who"})
        said = [note for note in found if note.startswith("`who` tells")]
        assert said == [
            "`who` tells 6 persons apart, 5 of them apart from spelling; after folding k_anonymity observed 2, "
            "distinct_l_diversity observed 2"
        ]

    def test_a_missing_value_of_a_person_is_none(self, engine: Engine) -> None:
        """Three persons; without what is missing they have a cold, a cold and flu, and gout."""
        columns = {**COLUMNS, "who": {"role": "insensitive"}}
        frame = table(zip=["a"] * 6, illness=["cold", None, "cold", "flu", "gout", None]).assign(who=list("xxyyzz"))
        guarantees = [{"distinct_l_diversity": {"column": "illness", "l": 2}}]
        asked = {"version": 1, "columns": columns, "guarantees": guarantees, "person_id": "who"}
        (note,) = [each for each in noted(engine, frame, asked) if "missing values" in each]
        assert note.endswith("without them distinct_l_diversity observed 3")
        frame["illness"] = ["cold", None, "cold", "flu", "cold", None]
        (note,) = [each for each in noted(engine, frame, asked) if "missing values" in each]
        assert note.endswith("without them distinct_l_diversity observed 1")

    def test_no_value_is_reported(self, embedded: Engine) -> None:
        frame = table(illness=["Zanzibarella", "zanzibarella", None, "cold", "gout", "flu"])
        assert "anzibarella" not in json.dumps(pp.assess(frame, POLICY, engine=embedded).to_dict())

    def test_ascii_and_other_texts_are_folded_alike(self) -> None:
        texts = ["\x1cA b\x1f", "\u00a0A B\u2003", "STRASSE", "stra\u00dfe", "", " ", None]
        assert folded(pa.array(texts)).to_pylist() == ["a b", "a b", "strasse", "strasse", "", "", None]


def _without_missing(entry: str, frame: pd.DataFrame) -> str:
    """The least figure of a class in which a missing value counts only where there is no other."""
    classes: dict[str, list[Any]] = defaultdict(list)
    for key, value in zip(frame["zip"], frame["illness"], strict=True):
        classes[key].append(value if isinstance(value, str) else None)
    figures = []
    for values in classes.values():
        counts = Counter(value for value in values if value is not None) or Counter(values)
        n, top = counts.total(), sorted(counts.values(), reverse=True)
        if entry == "distinct_l_diversity":
            figures.append(float(len(counts)))
        elif entry == "entropy_l_diversity":
            figures.append(math.exp(-sum(count / n * math.log(count / n) for count in top)))
        else:
            figures.append(top[0] / sum(top[1:]) if len(top) > 1 else math.inf)
    found = max(figures) if entry == "recursive_cl_diversity" else min(figures)
    return "no number" if math.isinf(found) else f"{found:.6g}"


class TestFaces:
    """Python, the verdict document, the command line, the report and Great Expectations say the same."""

    WANTED = (
        "k_anonymity with k = 1 protects no one",
        OWN,
        "`illness` has missing values, which count as a value; without them distinct_l_diversity observed 1",
    )

    def policy(self, folder: Path) -> dict[str, Any]:
        frame = table(pay=list("123456"), illness=["flu", "flu", None, "cold", "gout", "flu"])
        frame.to_parquet(folder / "d.parquet")
        return {
            **POLICY,
            "source": {"path": str(folder / "d.parquet")},
            "guarantees": [{"k_anonymity": {"k": 1}}, GUARANTEES[1]],
            "sink": {"path": str(folder / "published")},
        }

    def test_a_release_and_its_documents(self, engine: Engine, tmp_path: Path) -> None:
        result = pp.release(self.policy(tmp_path), engine=engine)
        verdict = json.loads((tmp_path / "published/_privpipe/verdict.json").read_text())
        for notes in (list(result.assessment.notes), verdict["notes"]):
            assert [note for note in notes if note in self.WANTED] == list(self.WANTED)

    def test_the_command_line_and_the_report(self, tmp_path: Path) -> None:
        (tmp_path / "p.yaml").write_text(json.dumps(self.policy(tmp_path)))
        done = CliRunner().invoke(app, ["release", str(tmp_path / "p.yaml")])
        assert done.exit_code == 0
        assert [line for line in done.stdout.splitlines() if line.removeprefix("note: ") in self.WANTED] == [
            f"note: {note}" for note in self.WANTED
        ]
        judged = CliRunner().invoke(app, ["validate", str(tmp_path / "published"), str(tmp_path / "p.yaml")])
        assert all(f"note: {note}" in judged.stdout for note in self.WANTED)
        report = CliRunner().invoke(app, ["report", str(tmp_path / "published")])
        assert all(f"| {note} |" in report.stdout for note in self.WANTED)

    def test_a_refused_release_is_noted_too(self, tmp_path: Path) -> None:
        policy = self.policy(tmp_path)
        policy["guarantees"] = [{"k_anonymity": {"k": 4}}, GUARANTEES[1]]
        with pytest.raises(pp.errors.Refused) as refusal:
            pp.release(policy)
        assert OWN in refusal.value.assessment.notes  # type: ignore[union-attr]

    def test_expectations(self, tmp_path: Path) -> None:
        pytest.importorskip("great_expectations")
        import privpipe.gx as ppgx

        self.policy(tmp_path)
        batch = batch_of(pd.read_parquet(tmp_path / "d.parquet"))
        told: dict[str, Any] = {"quasi_identifiers": ["zip"], "sensitive": ["illness"], "insensitive": ["pay"]}
        first = batch.validate(ppgx.ExpectKAnonymity(k=1, **told))  # type: ignore[attr-defined]
        second = batch.validate(ppgx.ExpectDistinctLDiversity(column="illness", l=2, **told))  # type: ignore[attr-defined]
        assert first.result["details"]["notes"] == [self.WANTED[0], self.WANTED[1]]
        assert second.result["details"]["notes"] == [self.WANTED[1], self.WANTED[2]]

    @pytest.mark.usual
    def test_every_engine_notes_the_same(self, engine: Engine, embedded: Engine) -> None:
        rng = np.random.default_rng(11)
        frame = pd.DataFrame(
            {
                "zip": rng.choice(list("abc"), 300),
                "illness": rng.choice(["Flu", "flu", "cold", None], 300),
                "pay": rng.permutation(300) / 8,
            }
        )
        assert noted(engine, frame) == noted(embedded, frame)
        assert len(noted(embedded, frame)) == 3
