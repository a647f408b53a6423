"""k^m-anonymity."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.blocks import ClassBlock, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, PolicyError, Refused, UnsupportedError, UsageError
from privpipe.judging import assess
from privpipe.kernels.classes.item_sets import baskets_of, merged_supports, supports_of
from privpipe.models import KAnonymity, KmAnonymity
from privpipe.roles import Roles
from privpipe.testing import HostileTable, judged, oracle
from tests.tiers import at_most

ROWS = {
    "age": ["30", "30", "40", "40", "30"],
    "sex": ["F", "M", "F", "M", "F"],
    "zip": ["a", "a", "a", "b", "b"],
}


def verdicts(engine: Engine, rows: dict[str, list[str]], *models: KmAnonymity | KAnonymity) -> list[Verdict]:
    table = engine.scan(Source(data=pa.table(rows)))
    return list(assess(engine, table, guarantees=models, roles=Roles(quasi_identifiers=list(rows))).verdicts)


def test_every_projection_is_counted(engine: Engine) -> None:
    """By hand: of one column at least 2 records share a value; of two, (40, F), (30, M) and others have one."""
    one, two, three, all_of_them = verdicts(engine, ROWS, *(KmAnonymity(k=2, m=m) for m in (1, 2, 3)), KAnonymity(k=2))
    assert (one.observed, one.passed) == (2, True)
    assert (two.observed, two.failing_classes, two.failing_records) == (1, 9, None)
    assert (three.observed, three.failing_classes, three.failing_records) == (1, 5, 5)
    assert three.failing_records == all_of_them.failing_records
    assert "over 3 sets of 2 quasi-identifiers; 9 of 12 combinations fail" in two.reason


def test_named_columns_alone_are_known(engine: Engine) -> None:
    some, single = verdicts(
        engine, ROWS, KmAnonymity(k=2, m=2, columns=("age", "sex")), KmAnonymity(k=2, m=2, columns=("zip",))
    )
    assert (some.observed, single.observed) == (1, 2)


def test_suppressed_records_are_not_a_combination_but_a_mark_is_a_value(engine: Engine) -> None:
    """Two records of nothing but the mark, and one with the mark in two of three columns."""
    rows = {
        "age": ["*", "*", "*", "30", "30"],
        "sex": ["*", "*", "*", "F", "F"],
        "zip": ["*", "*", "a", "a", "a"],
    }
    two, one = verdicts(engine, rows, KmAnonymity(k=2, m=2), KmAnonymity(k=2, m=1))
    assert (two.observed, two.failing_classes) == (1, 3)
    assert (one.observed, one.failing_classes) == (1, 2)


def test_the_verdict_document_counts_each_record_once(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table(ROWS)))
    found = assess(embedded, table, guarantees=[KmAnonymity(k=2, m=1)], roles=Roles(quasi_identifiers=list(ROWS)))
    assert (found.records, found.suppressed_records, found.classes) == (5, 0, None)


def test_one_set_is_k_anonymity() -> None:
    block = ClassBlock(pa.array([3, 1]).to_numpy())
    assert judged(KmAnonymity(k=2, m=7), block).failing_records == judged(KAnonymity(k=2), block).failing_records


def test_too_many_sets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"30 quasi-identifiers have 142,506 sets of 5, more than the 1,000"):
        KmAnonymity(k=2, m=5).key_sets(tuple(f"q{at}" for at in range(30)))


BASKETS = [
    ["milk,beer", "beer,milk,milk", "milk,beer,nappies", "nappies", "nappies,", "", None, "tea"],
    ["milk,beer", "milk,beer", "milk, beer"],
    ["a,b,c,d", "a,b,c,d", "a,b", "c", "d,c,b,a,e"],
    ["", None, ","],
    ['["a,b","c"]', '["c","a,b",null,""]', "[a,b]", '["c", 1]', "[]"],
]


def test_items_by_hand(engine: Engine) -> None:
    """Beer with milk is met three times, nappies thrice, and with either of the others once; tea is a whole record."""
    table = engine.scan(Source(data=pa.table({"basket": BASKETS[0], "zip": ["1"] * 8})))
    models = [
        KmAnonymity(k=2, m=2, items="basket"),
        KmAnonymity(k=1, m=2, items="basket"),
        KmAnonymity(m=2, items="basket"),
    ]
    found = assess(engine, table, guarantees=models[:2], measures=models[2:], roles=Roles(quasi_identifiers=["zip"]))
    failed, passed = found.verdicts
    assert (failed.outcome, failed.observed, failed.failing_classes, failed.failing_records) == ("fail", 1, 3, None)
    assert (passed.outcome, found.measures[0].observed, found.records) == ("pass", 1, 8)
    assert failed.reason == (
        "observed 1, required at least 2; over combinations of up to 2 items of 'basket'; 3 of 5 combinations fail."
    )


def test_lists_of_texts_are_sets_of_items(engine: Engine, tmp_path: Path) -> None:
    """As Parquet and frames hold them; by hand: each pair of two records, and one item with a comma, alone."""
    lists = [["milk", "beer, cold"], ["beer, cold", "milk", "milk"], ["tea, cold"], [], None]
    frame = pa.table({"basket": pa.array(lists), "zip": ["1"] * 5})
    pq.write_table(frame, tmp_path / "rows.parquet")
    for data in (str(tmp_path / "rows.parquet"), frame):
        table = engine.scan(Source(data=data))
        assert table.schema.field("basket").type == pa.string()
        gate = KmAnonymity(k=2, m=2, items="basket")
        verdict = assess(engine, table, guarantees=[gate], roles=Roles(quasi_identifiers=["zip"])).verdicts[0]
        assert (verdict.observed, verdict.failing_classes) == (1, 1)
        texts = set(engine.collect(table).column("basket").to_pylist())
        assert texts == {'["milk","beer, cold"]', '["beer, cold","milk","milk"]', '["tea, cold"]', "[]", None}


def test_items_agree_with_the_oracle(engine: Engine) -> None:
    asked = ((2, 2), (3, 9)) if engine.name == "spark" else ((2, 1), (2, 2), (3, 2), (2, 3), (3, 9))
    models = [KmAnonymity(k=k, m=m, items="basket") for k, m in asked]
    for cells in BASKETS[2:3] if engine.name == "spark" else BASKETS:
        rows = {"basket": pa.array(cells, pa.string()).to_pylist()}
        rows |= {name: ["1"] * len(cells) for name in ("zip", "illness", "income")}
        table = HostileTable(name="baskets", why="sets", rows=rows)
        handle = engine.scan(Source(data=pa.table({**rows, "basket": pa.array(cells, pa.string())})))
        found = assess(engine, handle, guarantees=models, roles=table.roles)
        for model, verdict in zip(models, found.verdicts, strict=True):
            expected = oracle(model, table)
            assert (verdict.outcome, verdict.observed, verdict.failing_classes) == (
                expected.outcome,
                expected.observed,
                expected.failing_classes,
            )


@pytest.mark.parametrize(("separator", "lengths"), [(None, [2, 2, 1]), (";", [1, 1, 2]), (",", [2, 2, 1])])
def test_brackets_make_a_list_only_where_no_separator_is_given(separator: str | None, lengths: list[int]) -> None:
    texts = pa.array(['["a","b"]', "a,b", "a;b"])
    assert baskets_of(texts, separator).lengths.tolist() == lengths
    comma = pa.array(['["a,b"]'])
    assert baskets_of(comma, separator).lengths.tolist() == [2 if separator == "," else 1]


@settings(max_examples=at_most(200))
@given(
    baskets=st.lists(st.lists(st.sampled_from("abcde"), max_size=5), min_size=1, max_size=12),
    m=st.integers(1, 4),
    cut=st.integers(0, 12),
)
def test_supports_do_not_depend_on_blocks(baskets: list[list[str]], m: int, cut: int) -> None:
    """Every record against every combination, and the same in two blocks."""
    shorter = tuple({len(set(basket)) for basket in baskets if 0 < len(set(basket)) < m})
    parts = [pa.array([" ".join(basket) for basket in part], pa.string()) for part in (baskets[:cut], baskets[cut:])]
    left, right = (supports_of(baskets_of(part, " "), m, shorter) for part in parts)
    together = merged_supports(left, right)
    whole = supports_of(baskets_of(pa.concat_arrays(parts[::-1]), " "), m, shorter)
    assert sorted(together.counts.tolist()) == sorted(whole.counts.tolist())
    assert (together.words == whole.words).all()
    known = {frozenset(some) for basket in baskets for some in combinations(sorted(set(basket)), m)}
    known |= {frozenset(basket) for basket in baskets if 0 < len(set(basket)) < m}
    supports = sorted(sum(some <= set(basket) for basket in baskets) for some in known)
    assert sorted(together.counts[together.asked].tolist()) == supports


def test_many_entries_over_items_make_one_count(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    reduce_rows = type(embedded).reduce_rows
    monkeypatch.setattr(
        type(embedded), "reduce_rows", lambda self, *rest: asked.append("count") or reduce_rows(self, *rest)
    )
    table = embedded.scan(Source(data=pa.table({"basket": ["a,b", "b"]})))
    counts = []
    for models in ([1], range(1, 21)):
        gates = [KmAnonymity(k=k, m=2, items="basket") for k in models]
        assess(embedded, table, guarantees=gates, roles=Roles(insensitive=["basket"]))
        counts.append(len(asked))
    assert counts[1] == 2 * counts[0]


def test_items_of_suppressed_records_and_odd_columns(embedded: Engine) -> None:
    rows = {"zip": ["*", "1", "1"], "basket": ["*", "milk", "milk"], "age": [None, 2, 3]}
    table, roles = embedded.scan(Source(data=pa.table(rows))), Roles(quasi_identifiers=["zip"])
    found = assess(embedded, table, guarantees=[KmAnonymity(k=2, m=2, items="basket")], roles=roles)
    assert (found.verdicts[0].observed, found.records, found.suppressed_records) == (2, 2, 1)
    for column, error in (("age", "holds no sets of items"), ("baskt", "did you mean 'basket'")):
        with pytest.raises(DataError, match=error):
            assess(embedded, table, guarantees=[KmAnonymity(k=2, m=2, items=column)], roles=roles)
    marked = embedded.scan(Source(data=pa.table({"zip": ["*"], "basket": ["*"]})))
    alone = assess(embedded, marked, guarantees=[KmAnonymity(k=1, m=1, items="basket")], roles=roles)
    assert (alone.passed, alone.records) == (False, 0)


def test_too_many_combinations_are_refused_before_they_are_hashed(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table({"basket": [",".join(map(str, range(2000)))]})))
    model = KmAnonymity(k=2, m=5, items="basket")
    with pytest.raises(UnsupportedError, match=r"combinations of up to 5 items of 'basket', 33,554,432 are counted"):
        assess(embedded, table, guarantees=[model], roles=Roles(insensitive=["basket"]))


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"k": 0}, "k must"),
        ({"m": 0}, "m must"),
        ({"columns": "age"}, "must be a list"),
        ({"columns": ()}, "at least one"),
        ({"columns": ("a",), "quasi_identifiers": ("b",)}, "the same thing"),
        ({"items": ""}, "items must be a column name"),
        ({"items": "basket", "columns": ("a",)}, "not both"),
        ({"items": "basket", "quasi_identifiers": ()}, "not both"),
        ({"items": "basket", "separator": ""}, "at least one character"),
        ({"separator": ";"}, "has no effect without items"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        KmAnonymity(**{"k": 2, "m": 2, **parameters})


def test_a_policy_judges_items(tmp_path: Path) -> None:
    rows = {"zip": ["1", "2"] * 6, "basket": ["milk;beer", "beer;milk", "tea"] * 4}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    entry = {"k": 4, "m": 2, "items": "basket", "separator": ";"}
    policy: dict[str, Any] = {
        "version": 1,
        "source": {"path": str(tmp_path / "rows.parquet")},
        "columns": {
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "basket": {"role": "insensitive"},
        },
        "transform": [{"generalize": {"search": "optimal"}}],
        "guarantees": [{"k_anonymity": {"k": 3}}, {"km_anonymity": entry}],
        "measures": [{"km_anonymity": {"m": 1, "items": "basket", "separator": ";"}}],
        "sink": {"path": str(tmp_path / "out")},
    }
    found = pp.release(policy).assessment
    assert [verdict.observed for verdict in (*found.verdicts, *found.measures)] == [6, 4, 4]
    entry["k"] = 5
    with pytest.raises(Refused, match="1 of 2 combinations fail"):
        pp.release(policy)
    for change, error, says in (
        ({"person_id": "basket"}, UnsupportedError, "counts records"),
        ({"nulls": "wildcard", "transform": []}, PolicyError, "a set of items has no unknown cells"),
        ({"guarantees": [{"km_anonymity": {**entry, "items": "baskt"}}]}, PolicyError, "'baskt' is not among"),
    ):
        with pytest.raises(error, match=says):
            pp.Policy.from_dict(policy | change)
