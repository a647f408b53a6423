"""Severities, numbers of expectations, parameters of a run, parts of an asset, SQL sources and Data Docs."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.cli.explain import described
from privpipe.errors import Refused
from tests.validated_frames import batch_of, gate, passing, validated

gx = pytest.importorskip("great_expectations")
from great_expectations.exceptions import SuiteParameterError  # noqa: E402

import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]
ROWS = pd.DataFrame(
    {"zip": ["a", "a", "b", "b"], "illness": ["flu", "cold", "flu", "cold"], "month": ["1", "1", "1", "2"]}
)
KEYS = ["zip"]


def checked(suite: Any, *, frame: pd.DataFrame = ROWS, expects: Any = None, **parameters: Any) -> Any:
    return passing(gate(suite, expects=expects), frame, **parameters)


def suite(*expectations: Any) -> Any:
    return gx.ExpectationSuite(name="suite", expectations=list(expectations))


def outcome(result: Any, position: int = 0) -> Any:
    (run,) = result.run_results.values()
    return run.results[position]


def test_a_warning_that_fails_warns() -> None:
    both = suite(
        ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS),
        ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS, severity="warning"),
    )
    with pytest.warns(UserWarning, match=r"1 expectation\(s\) that only warn failed: expect_k_anonymity"):
        result = checked(both)
    assert not outcome(result, 1).success


def test_a_critical_one_next_to_a_warning_refuses() -> None:
    both = suite(
        ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS),
        ppgx.ExpectKAnonymity(k=4, quasi_identifiers=KEYS, severity="warning"),
    )
    with pytest.raises(Refused, match=r"1 of 2 expectation\(s\) failed"):
        checked(both)


@pytest.mark.parametrize(
    ("expects", "said"),
    [(2, "1 of the 2"), (["expect_k_anonymity", "expect_t_closeness"], "no expect_t_closeness")],
)
def test_a_gate_asks_for_what_it_expects(expects: Any, said: str) -> None:
    one = suite(ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS))
    with pytest.raises(Refused, match=said):
        checked(one, expects=expects)


@pytest.mark.parametrize("expects", [1, ["expect_k_anonymity"], None])
def test_a_gate_that_has_what_it_expects_passes(expects: Any) -> None:
    assert checked(suite(ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS)), expects=expects).success


def test_a_threshold_may_be_a_parameter_of_the_run() -> None:
    def later() -> Any:
        return suite(ppgx.ExpectKAnonymity(k={"$PARAMETER": "least"}, quasi_identifiers=KEYS))

    assert checked(later(), least=2).success
    with pytest.raises(Refused):
        checked(later(), least=3)
    with pytest.raises(SuiteParameterError):
        checked(later())
    with pytest.raises(ValueError, match="k: must be an integer, not a text"):
        checked(later(), least="many")


def test_a_wrong_parameter_next_to_a_later_one_is_still_found() -> None:
    with pytest.raises(Exception, match="column"):
        ppgx.ExpectDistinctLDiversity(column=7, l={"$PARAMETER": "least"}, quasi_identifiers=KEYS)


def test_a_part_of_an_asset_is_judged_only_where_parts_are_meant(tmp_path: Any) -> None:
    context = gx.get_context(mode="ephemeral")
    for month in ("2026-01", "2026-02"):
        ROWS.to_csv(tmp_path / f"visits_{month}.csv", index=False)
    asset = context.data_sources.add_pandas_filesystem("f", base_directory=tmp_path).add_csv_asset("visits")
    parts = asset.add_batch_definition_monthly(
        "monthly", regex=re.compile(r"visits_(?P<year>\d{4})-(?P<month>\d{2})\.csv")
    )
    for judge, success in (("batch", True), ("whole", False)):
        result = parts.get_batch(batch_parameters={"year": 2026, "month": 1}).validate(
            ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS, judge=judge)
        )
        assert result.success is success
    assert "one part of its asset" in str(result)
    assert batch_of(ROWS).validate(ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS, judge="whole")).success


def test_a_sql_source_is_refused_in_one_sentence(tmp_path: Any) -> None:
    pytest.importorskip("sqlalchemy")
    import sqlite3

    with sqlite3.connect(tmp_path / "visits.db") as connection:
        ROWS.to_sql("visits", connection, index=False)
    connection.close()
    context = gx.get_context(mode="ephemeral")
    source = context.data_sources.add_sqlite("s", connection_string=f"sqlite:///{tmp_path / 'visits.db'}")
    batch = source.add_table_asset("t", table_name="visits").add_batch_definition_whole_table("b").get_batch()
    result = batch.validate(ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS))
    assert not result.success
    assert "a SQL data source cannot be judged in place" in str(result)


def shown(expectation: Any, frame: pd.DataFrame = ROWS) -> str:
    """The text of the page that Data Docs would write."""
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    result = ValidationResultsPageRenderer().render(validated(suite(expectation), frame))
    page = str(DefaultJinjaPageView().render(result))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def test_data_docs_say_what_was_asked_and_why_it_failed() -> None:
    text = shown(ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS))
    assert "k_anonymity with k = 3" in text
    assert "over zip" in text
    assert "4 of 4 records (100.00%) are in 2 failing classes" in text


def test_data_docs_say_in_plain_words_what_a_failure_means() -> None:
    text = shown(ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS))
    assert pp.models.KAnonymity.summary() in html.unescape(text)
    assert "It guards against this: " + " ".join(pp.models.KAnonymity.threat.split()) in html.unescape(text)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_saved_suite_says_what_each_threshold_means_and_where_it_comes_from(tmp_path: Any, by_hand: bool) -> None:
    made = (
        suite(ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS, meta={"owner": "desk"}))
        if by_hand
        else ppgx.suite_of([pp.models.KAnonymity(k=3)], pp.Roles(quasi_identifiers=KEYS), name="s")
    )
    ppgx.save_suite(made, tmp_path / "s.json")
    [saved] = json.loads((tmp_path / "s.json").read_text())["expectations"]
    explained = described("k_anonymity")
    assert saved["meta"]["privpipe"] == {
        "threshold": {"k": 3},
        "means": explained["summary"],
        "guards_against": explained["threat"],
        "rule": explained["formula"],
        "source": explained["source"],
    }
    assert saved["meta"].get("owner") == ("desk" if by_hand else None)
    [loaded] = ppgx.load_suite(tmp_path / "s.json").expectations
    assert loaded.meta == saved["meta"]


def test_data_docs_hold_no_value_of_the_table() -> None:
    canary = "Zanzibarella"
    text = shown(
        ppgx.ExpectDistinctLDiversity(column="illness", l=3, quasi_identifiers=KEYS),
        ROWS.assign(illness=canary, zip=[canary, "a", "a", "b"]),
    )
    assert "distinct_l_diversity" in text
    assert canary not in text


def test_data_docs_tell_what_could_not_be_judged() -> None:
    text = shown(ppgx.ExpectKAnonymity(k=3, quasi_identifiers=["postcode"]))
    assert "column 'postcode' is not in the batch" in text


def test_a_suite_of_a_policy_keeps_severity_when_saved(tmp_path: Any) -> None:
    made = ppgx.suite_of([pp.models.KAnonymity(k=2)], pp.Roles(quasi_identifiers=KEYS), name="s")
    made.expectations[0].severity = "warning"
    ppgx.save_suite(made, tmp_path / "s.json")
    assert ppgx.load_suite(tmp_path / "s.json").expectations[0].severity == "warning"


def test_an_empty_batch_passes_where_it_is_asked_for() -> None:
    strict = suite(ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS))
    with pytest.raises(Refused, match="expect_k_anonymity"):
        checked(strict, frame=ROWS[:0])
    allowed = ppgx.ExpectKAnonymity(k=2, quasi_identifiers=KEYS, empty="pass")
    found = outcome(checked(suite(allowed), frame=ROWS[:0]))
    assert found.success
    assert found.result["observed_value"] is None
    assert any("no records" in note for note in found.result["details"]["notes"])
    with pytest.raises(Refused):
        checked(suite(ppgx.ExpectKAnonymity(k=3, quasi_identifiers=KEYS, empty="pass")))
