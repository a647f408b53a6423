"""Record ids against the encoding as the specification words it, on any types, slices and chunks."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.compiled import load
from privpipe.draws import Seed, siphash
from privpipe.errors import DataError
from privpipe.kernels.columns import cell_words
from privpipe.kernels.columns.cell_words import CodedCells, coded_words, integer_cells
from privpipe.kernels.ids import record_ids
from privpipe.kernels.ids.record_ids import (
    content_hash,
    declared_id,
    hash_cells,
    ordinals,
    record_id,
    sum_of_hashes,
)
from tests.tiers import at_most

SEED = Seed.insecure("a seed")
EPOCH = dt.datetime(1970, 1, 1)
FIXED = [[6673409796851659797, 5823731059555396303], [7410954306984973742, 1785877254502775345]]


def hashed(words: list[int]) -> tuple[int, int]:
    """SipHash-2-4-128 of words, by the primitives that are tested against the published vectors."""
    state: Any = siphash.start_128(*siphash.key_words(SEED.key("record")))
    for word in words:
        state = siphash.absorb(*(np.uint64(v) for v in state), np.uint64(word))
    both = siphash.close_128(*(np.uint64(v) for v in state), np.uint64(len(words)))
    first, second = (int(np.uint64(half).astype(np.int64)) for half in both)
    return first, second


def payload_of(value: Any, kind: pa.DataType) -> tuple[int, bytes]:
    """Tag and bytes of one cell that has a value, straight from the specification."""
    if pa.types.is_boolean(kind):
        return 1, struct.pack("<q", value)
    if pa.types.is_integer(kind):
        return 2, struct.pack("<q", value)
    if pa.types.is_floating(kind):
        return 3, struct.pack("<d", 0.0 if value == 0 else value)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return 4, value.encode()
    if pa.types.is_date(kind):
        return 5, struct.pack("<q", (value - EPOCH.date()).days)
    if pa.types.is_timestamp(kind):
        since = value - EPOCH if kind.tz is None else value - EPOCH.replace(tzinfo=dt.UTC)
        return (6 if kind.tz is None else 7), struct.pack("<q", since // dt.timedelta(microseconds=1))
    if pa.types.is_decimal(kind):
        return 8, int(value.scaleb(kind.scale)).to_bytes(16, "little", signed=True)
    return 9, value


def words_of_cell(value: Any, kind: pa.DataType) -> list[int]:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return [0]
    tag, payload = payload_of(value, kind)
    padded = payload.ljust(-(-len(payload) // 8) * 8, b"\0")
    return [tag | len(payload) << 8, *(word for (word,) in struct.iter_unpack("<Q", padded))]


def oracle(table: pa.Table) -> list[tuple[int, int]]:
    out = []
    for row in table.to_pylist():
        words: list[int] = []
        for name in sorted(row):
            words += words_of_cell(row[name], table.schema.field(name).type)
        out.append(hashed(words))
    return out


MOMENTS = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
CELLS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=20),
    pa.large_string(): st.text(max_size=20),
    pa.string_view(): st.text(max_size=20),
    pa.date32(): st.dates(dt.date(1, 1, 1)),
    pa.date64(): st.dates(dt.date(1, 1, 1)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("s"): MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us", "Europe/Paris"): MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    pa.decimal128(12, 2): st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.binary(5): st.binary(min_size=5, max_size=5),
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    columns = {}
    for name in draw(st.lists(st.text("abcÀ", min_size=1, max_size=2), max_size=4, unique=True)):
        kind = draw(st.sampled_from(list(CELLS)))
        cells = draw(st.lists(st.one_of(st.none(), CELLS[kind]), min_size=rows, max_size=rows))
        columns[name] = pa.array(cells, kind)
    return pa.table(columns)


@settings(max_examples=at_most(200))
@given(tables(), st.integers(0, 5))
def test_each_row_has_the_hash_of_its_cells(table: pa.Table, first: int) -> None:
    part = table.slice(first)
    assert content_hash(part, SEED).tolist() == [list(pair) for pair in oracle(part)]


def wide_table(rows: int) -> pa.Table:
    generator = np.random.default_rng(3)
    names = np.array(["Ada", "Grace Hopper", "", "Émilie du Châtelet"])
    holes = generator.random((4, rows)) < 0.2
    return pa.table(
        {
            "n": pa.array(generator.integers(-5, 5, rows), mask=holes[0]),
            "x": pa.array(generator.choice([0.0, -0.0, 1.5, np.nan], rows), mask=holes[1], from_pandas=False),
            "name": pa.array(names[generator.integers(0, 4, rows)], mask=holes[2]),
            "yes": pa.array(generator.random(rows) < 0.5, mask=holes[3]),
        }
    )


def test_chunks_slices_and_row_order_change_nothing() -> None:
    table = wide_table(10_000)
    whole = content_hash(table, SEED)
    cuts = [0, 1, 9, 4096, 4097, 9999, 10_000]
    parts = pa.concat_tables(table.slice(a, b - a) for a, b in itertools.pairwise(cuts))
    assert (content_hash(parts, SEED) == whole).all()
    batch = table.slice(13).combine_chunks().to_batches()[0]
    assert (content_hash(batch, SEED) == whole[13:]).all()
    order = np.random.default_rng(0).permutation(len(whole))
    assert (content_hash(table.take(order), SEED) == whole[order]).all()
    assert (content_hash(table.select(["yes", "n", "name", "x"]), SEED) == whole).all()
    assert whole[:50].tolist() == [list(pair) for pair in oracle(table.slice(0, 50))]


def test_equal_values_hash_alike_whatever_their_storage() -> None:
    text = pa.array(["a", None, "longer than eight bytes"])
    alike = [
        [text, text.cast(pa.large_string()), text.cast(pa.string_view()), text.dictionary_encode()],
        [pa.array([1, None, 3], kind) for kind in (pa.int8(), pa.uint16(), pa.int64())],
        [pa.array([1.5, None, np.nan], pa.float32()), pa.array([1.5, np.nan, None], from_pandas=False)],
        [pa.array([0.0]), pa.array([-0.0])],
    ]
    for columns in alike:
        first, *others = (content_hash(pa.table({"a": column}), SEED).tolist() for column in columns)
        assert all(other == first for other in others)


def test_what_differs_hashes_differently() -> None:
    one = [
        pa.array([1]),
        pa.array([1.0]),
        pa.array(["1"]),
        pa.array([b"1"]),
        pa.array([True]),
        pa.array([1], pa.date32()),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([decimal.Decimal(1)]),
        pa.array([""]),
        pa.array([0]),
        pa.nulls(1),
    ]
    hashes = {tuple(content_hash(pa.table({"a": column}), SEED)[0].tolist()) for column in one}
    assert len(hashes) == len(one)
    shifted = pa.table({"a": [None, "x"], "b": ["x", None]})
    assert len(np.unique(content_hash(shifted, SEED), axis=0)) == 2
    split = pa.table({"a": ["ab", "a"], "b": ["c", "bc"]})
    assert len(np.unique(content_hash(split, SEED), axis=0)) == 2


def test_the_seed_is_the_key() -> None:
    table = wide_table(10)
    assert (content_hash(table, SEED) != content_hash(table, Seed.insecure("another"))).all()


def test_identical_rows_get_distinct_ids_in_any_order() -> None:
    table = pa.table({"a": [1, 2, 1, 1, 2]})
    hashes = content_hash(table, SEED)
    assert ordinals(hashes).tolist() == [0, 0, 1, 2, 1]
    ids = record_id(hashes, ordinals(hashes), SEED)
    assert len(np.unique(ids, axis=0)) == 5
    shuffled = content_hash(table.take([4, 2, 0, 1, 3]), SEED)
    assert {tuple(pair) for pair in record_id(shuffled, ordinals(shuffled), SEED)} == {tuple(pair) for pair in ids}
    words = [int(np.int64(word).astype(np.uint64)) for word in (*hashes[2], 1)]
    assert tuple(ids[2].tolist()) == hashed(words)


def test_a_declared_id_is_the_hash_of_its_cell() -> None:
    column = pa.chunked_array([["p1"], ["p2", "p3"]])
    assert declared_id(column, SEED).tolist() == [
        list(hashed(words_of_cell(v, pa.string()))) for v in column.to_pylist()
    ]


def test_ids_do_not_change_between_versions() -> None:
    assert content_hash(wide_table(2), SEED).tolist() == FIXED


def test_no_rows_and_no_columns() -> None:
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})
    assert content_hash(empty, SEED).shape == (0, 2)
    assert ordinals(content_hash(empty, SEED)).shape == (0,)
    bare = pa.table({"a": [1, 2]}).select([])
    assert content_hash(bare, SEED).shape[0] == bare.num_rows


CANARY = 18_000_000_000_000_000_777


@pytest.mark.parametrize(
    ("column", "count"),
    [
        (pa.array([1, CANARY, CANARY], pa.uint64()), 2),
        (pa.array([1_000, 1_700_000_000_000_000_777, None], pa.timestamp("ns")), 1),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_without_the_value(column: pa.Array, count: int) -> None:
    with pytest.raises(DataError, match=rf"'visits'.*\({count}\)") as caught:
        content_hash(pa.table({"visits": column}), SEED)
    assert "777" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_type_without_encoding_is_an_error_that_names_it() -> None:
    for column in (pa.array([[1, 2]]), pa.array([dt.time(1, 2)]), pa.array([{"a": 1}])):
        with pytest.raises(DataError, match="'visits'"):
            content_hash(pa.table({"visits": column}), SEED)


@pytest.mark.deep
@settings(max_examples=at_most(200))
@given(st.lists(st.text(max_size=20), unique=True, min_size=1, max_size=6), st.data())
def test_numbers_of_a_dictionary_hash_as_the_texts_they_stand_for(values: list[str], data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, len(values)), max_size=30))
    texts = pa.array([None if code == len(values) else values[code] for code in codes], pa.string())
    ages = pa.array([7 * code for code in codes], pa.int64())
    coded = CodedCells(np.array(codes, np.int32), *coded_words(pa.array(values), "name"))
    plain = content_hash(pa.table({"age": ages, "name": texts}), SEED)
    assert (hash_cells([integer_cells(ages.to_numpy()), coded], len(codes), SEED) == plain).all()
    moved = [np.zeros((4, 32), np.uint64) for _ in range(2)], [np.zeros(32, np.uint64) for _ in range(2)]
    load()
    for absorb, state, words in zip((cell_words._absorb_coded, cell_words._absorb_coded_plain), *moved, strict=True):
        absorb(coded.codes, coded.starts, coded.words, 0, len(codes), state, words)
    assert (moved[0][0] == moved[0][1]).all()
    assert (moved[1][0] == moved[1][1]).all()


@pytest.mark.parametrize("one_in", [1, 2, 3, 5, 50, 10_000])
def test_texts_of_many_lengths_hash_as_their_words(one_in: int) -> None:
    # The few that are longer than the others are worked off by themselves, at whichever word they begin to be few.
    texts = ["" if row % 7 == 6 else "é" * (row % 9) + "x" * (70 if row % one_in == 0 else 0) for row in range(300)]
    plain = pa.table({"name": [None if row % 11 == 10 else text for row, text in enumerate(texts)]})
    load()
    expected = oracle(plain)
    assert content_hash(plain, SEED).tolist() == [list(pair) for pair in expected]
    assert content_hash(plain.slice(17), SEED).tolist() == [list(pair) for pair in expected[17:]]
    encoded = plain.column("name").combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy().astype(np.int32)
    coded = CodedCells(codes, *coded_words(encoded.dictionary, "name"))
    assert hash_cells([coded], len(codes), SEED).tolist() == [list(pair) for pair in expected]


def test_ids_of_many_rows_are_those_of_each() -> None:
    load()
    words = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, (2_500, 2))
    ordinal = np.arange(2_500) % 3
    whole = record_id(words, ordinal, SEED)
    for row in (0, 1, 1023, 1024, 1025, 2047, 2048, 2499):
        expected = hashed([int(word) % 2**64 for word in (*words[row], ordinal[row])])
        assert tuple(whole[row].tolist()) == expected


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2), max_size=20))
def test_hashes_add_up_modulo_two_to_the_128(words: list[tuple[int, int]]) -> None:
    array = np.array(words, np.int64).reshape(-1, 2)
    expected = sum((high % 2**64 << 64) + low % 2**64 for high, low in words) % 2**128
    assert sum_of_hashes(array) == expected
    load()
    assert record_ids._halves_summed(array).tolist() == record_ids._halves_summed_plain(array).tolist()
