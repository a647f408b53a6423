"""Pseudonyms: the formula, what is one value, and what is refused."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.transforms import Pseudonymise
from privpipe.transforms.base import StageContext

SECRET = "correct horse battery staple, twice"
KEY = {"from_env": "PRIVPIPE_TEST_KEY"}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", SECRET)


def formula(domain: str, tagged: str, length: int = 26) -> str:
    """First 5 x length bits of HMAC-SHA256(key, domain | 0x1f | tag and text), written out again."""
    digest = hmac.new(SECRET.encode(), domain.encode() + b"\x1f" + tagged.encode(), hashlib.sha256).digest()
    return base64.b32encode(digest).decode().lower()[:length]


def pseudonyms(run: Any, values: Any, **parameters: Any) -> list[Any]:
    stage = Pseudonymise(**{"columns": ["id"], "key": KEY, "domain": "patients", **parameters})
    frame = pa.table({"id": values, "row": range(len(values))})
    found = run(stage, frame, record_id="row").rows.sort_by("row")
    assert found.schema.field("id").type == pa.string()
    return found.column("id").to_pylist()  # type: ignore[no-any-return]


def test_the_formula(run: Any) -> None:
    assert pseudonyms(run, ["ann", None, ""]) == [formula("patients", "tann"), None, formula("patients", "t")]
    assert pseudonyms(run, ["ann"], domain="staff", length=51) == [formula("staff", "tann", 51)]


@pytest.mark.parametrize("length", [32, 63, 64, 65, 200])
def test_keys_of_every_length_are_those_of_hmac(run: Any, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """HMAC pads keys to one block of 64 bytes and hashes longer ones; texts here take one, two and three blocks."""
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", key := (SECRET * 6)[:length])
    texts = ["x" * size for size in (0, 1, 40, 63, 64, 65, 130)]
    digests = [hmac.digest(key.encode(), b"patients\x1ft" + text.encode(), "sha256") for text in texts]
    expected = [base64.b32encode(digest).decode().lower()[:51] for digest in digests]
    assert pseudonyms(run, texts, length=51) == expected
    for short in (16, 17, 23, 24, 26):
        assert pseudonyms(run, texts[:1], length=short) == [expected[0][:short]]


def test_each_type_has_its_tag(run: Any) -> None:
    assert pseudonyms(run, [1, -20]) == [formula("patients", "i1"), formula("patients", "i-20")]
    assert pseudonyms(run, [1.0, 0.5]) == [formula("patients", "n1"), formula("patients", "n0.5")]
    assert pseudonyms(run, [True]) == [formula("patients", "btrue")]
    assert pseudonyms(run, [datetime.date(2020, 2, 3)]) == [formula("patients", "d2020-02-03")]
    assert pseudonyms(run, pa.array([Decimal("1.50")])) == [formula("patients", "m1.5")]
    as_text = [pseudonyms(run, values, canonical="text")[0] for values in (["1"], [1], [1.0])]
    assert as_text == [formula("patients", "t1")] * 3
    assert len({pseudonyms(run, values)[0] for values in (["1"], [1], [1.0])}) == 3


def test_composed_and_decomposed_text_are_one(run: Any) -> None:
    composed, decomposed = pseudonyms(run, ["Zoë", "Zoe\u0308"])
    assert composed == decomposed


def test_equality_and_nulls_are_kept(run: Any, people: pa.Table) -> None:
    found = run(Pseudonymise(columns=["name", "town"], key=KEY, domain="d"), people)
    for name in ("name", "town"):
        before = people.column(name).to_pylist()
        assert len(set(found[name])) == len(set(before))
        assert found[name].count(None) == before.count(None)
    assert found.plan.detail["nulls"] == {"name": 0, "town": people.column("town").null_count}


def test_the_same_key_joins_tables_and_another_domain_does_not(run: Any) -> None:
    assert pseudonyms(run, ["a", "b"]) == list(reversed(pseudonyms(run, ["b", "a"])))
    assert pseudonyms(run, ["a"], domain="others") != pseudonyms(run, ["a"])


def test_the_key_is_in_no_plan_and_no_text(run: Any) -> None:
    stage = Pseudonymise(columns=["id"], key=KEY, domain="patients")
    plan = run(stage, {"id": ["a"]}).plan
    assert plan.detail["key_id"] == hmac.new(SECRET.encode(), b"id", hashlib.sha256).hexdigest()[:8]
    assert SECRET not in repr(stage) + repr(plan)
    assert "PRIVPIPE_TEST_KEY" not in repr(stage)


def test_a_plan_made_with_another_key_is_refused(run: Any, embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Pseudonymise(columns=["id"], key=KEY, domain="patients")
    plan = run(stage, {"id": ["a"]}).plan
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", SECRET[::-1])
    table = embedded.scan(Source(data=pa.table({"id": ["a"]})))
    context = StageContext(roles=None, schema=table.schema, place="transform[0]")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not the one the plan was made with"):
        stage.run(embedded, table, plan, Draws(Seed.insecure(1), 0, "pseudonymise"), context)


def test_keys_come_from_their_place_and_are_long(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(SECRET + "\n")
    assert pseudonyms(run, ["ann"], key={"from_file": str(file)}) == pseudonyms(run, ["ann"])
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", "short")
    with pytest.raises(UsageError, match=r"has 5 bytes; it needs at least 32"):
        pseudonyms(run, ["ann"])
    monkeypatch.delenv("PRIVPIPE_TEST_KEY")
    with pytest.raises(UsageError, match="not set"):
        pseudonyms(run, ["ann"])


def test_short_pseudonyms_must_not_collide(run: Any) -> None:
    assert len(pseudonyms(run, ["a", "b"], length=6)[0]) == 6
    with pytest.raises(DataError, match=r"4 characters would collide .* for 40 records\); use length 26"):
        pseudonyms(run, [str(at) for at in range(40)], length=4)


def test_a_missing_column_is_named(run: Any) -> None:
    with pytest.raises(DataError, match=r"'ids' is not here; did you mean 'id'"):
        run(Pseudonymise(columns=["ids"], key=KEY, domain="d"), {"id": ["a"]})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"key": SECRET}, "never the key itself"),
        ({"key": {"from_vault": "x"}}, "no place 'from_vault'"),
        ({"domain": ""}, "domain must be"),
        ({"domain": "a\x1fb"}, "domain must be"),
        ({"length": 52}, "length must be an integer in"),
        ({"length": 0}, "length must be an integer in"),
        ({"canonical": "plain"}, "canonical must be"),
        ({"columns": []}, "at least one column"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        Pseudonymise(**{"columns": ["id"], "key": KEY, "domain": "d", **parameters})
    assert SECRET not in str(raised.value)
