"""The distinct table: codes, domains, nulls and unknown values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts
from privpipe.errors import DataError, HierarchyError, NoSolutionError, UnsupportedError
from privpipe.hierarchies import HierarchySpec
from privpipe.models import KAnonymity, TCloseness
from privpipe.roles import Roles
from privpipe.testing.plain_engine import histogram_of
from privpipe.transforms import Generalize
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.encoded_table import encode


def context_of(table: pa.Table, hierarchies: dict[str, Any], *guarantees: Any, base: Any = None) -> StageContext:
    keys = [name for name in table.column_names if name != "ill"]
    return StageContext(
        roles=Roles(quasi_identifiers=keys, sensitive=["ill"] if "ill" in table.column_names else []),
        schema=table.schema,
        hierarchies={name: HierarchySpec.from_mapping(spec, ".", column=name) for name, spec in hierarchies.items()},
        guarantees=guarantees or (KAnonymity(k=1),),
        base=Facts(histograms={"ill": histogram_of(base)}) if base else Facts(),
        place="transform[0]",
    )


AGES = {"age": {"intervals": {"widths": [10, 20]}}}
TOWNS = {"tree": {"North": ["Ashford"], "South": ["Barrow", "Crewe"]}}


def test_codes_counts_and_fixed_columns(plain: Any) -> None:
    table = pa.table({"age": [31, 7, 31, 31], "sex": ["m", "f", "m", None], "ill": ["u", "v", "u", "u"]})
    context = context_of(table, AGES, KAnonymity(k=2), TCloseness(column="ill", t=0.5), base=["v", "u", "w"])
    found = encode(plain, table, Generalize(), context)
    assert (found.columns, found.fixed, found.records, len(found)) == (("age",), ("sex",), 4, 3)
    rows = sorted(
        (
            found.hierarchies[0].values[code],
            int(sex),
            int(ill),
            int(count),
        )
        for (code, sex), ill, count in zip(
            found.codes.tolist(), found.rows.sensitive["ill"], found.rows.counts, strict=True
        )
    )
    # Sexes rank f, m, null; illnesses have the places of the base: u, v, w.
    assert rows == [("31", 1, 0, 2), ("31", 2, 0, 1), ("7", 0, 1, 1)]


def test_any_row_order_gives_the_same_table(plain: Any) -> None:
    """The second column's values come in another order first by first; its leaves must not."""
    table = pa.table({"town": ["b", "a", "c", "a"], "age": [50, 7, 31, 12]})
    hierarchies = {"town": {"redact": {"keep": "left"}}, **AGES}
    one, other = (
        encode(plain, rows, Generalize(), context_of(rows, hierarchies)) for rows in (table, table.take([3, 2, 1, 0]))
    )
    assert (one.codes == other.codes).all()
    assert [h.digest() for h in one.hierarchies] == [h.digest() for h in other.hierarchies]
    assert one.hierarchies[1].values == ("7", "12", "31", "50")


def test_a_null_is_a_leaf_of_its_own(plain: Any) -> None:
    table = pa.table({"town": ["Ashford", None, "Crewe"]})
    found = encode(plain, table, Generalize(), context_of(table, {"town": TOWNS}))
    (hierarchy,) = found.hierarchies
    assert hierarchy.domain_size == 4
    assert hierarchy.null_code in found.codes[:, 0]
    ranks = found.key_ranks("town", (0,), np.arange(3))
    assert sorted(ranks.tolist()) == [0, 2, 3]  # Ashford, (Barrow), Crewe, null last


def test_unknown_values_are_refused_suppressed_or_made_the_root(plain: Any) -> None:
    table = pa.table({"town": ["Ashford", "Dover", "Dover", "Crewe"]})
    with pytest.raises(HierarchyError, match="unknown") as raised:
        encode(plain, table, Generalize(), context_of(table, {"town": TOWNS}))
    assert "Dover" not in str(raised.value)
    suppressed = encode(plain, table, Generalize(), context_of(table, {"town": {**TOWNS, "unknown": "suppress"}}))
    assert (suppressed.unknown, suppressed.records, len(suppressed)) == (2, 4, 2)
    rooted = encode(plain, table, Generalize(), context_of(table, {"town": {**TOWNS, "unknown": "root"}}))
    assert (rooted.unknown, len(rooted)) == (0, 3)
    nothing = pa.table({"town": ["Dover"]})
    with pytest.raises(NoSolutionError, match="no record is left"):
        encode(plain, nothing, Generalize(), context_of(nothing, {"town": {**TOWNS, "unknown": "suppress"}}))


def test_a_base_that_lacks_a_value_is_an_error(plain: Any) -> None:
    table = pa.table({"age": [1, 2], "ill": ["u", "v"]})
    with pytest.raises(DataError, match="base distribution of 'ill' does not cover"):
        encode(plain, table, Generalize(), context_of(table, AGES, TCloseness(column="ill", t=0.5), base=["u"]))


def test_nodes_keep_to_their_levels_and_have_a_limit(plain: Any) -> None:
    table = pa.table({"age": [1, 2], "town": ["Ashford", "Crewe"]})
    limited = {"age": {**AGES["age"], "min_level": 1, "max_level": 2}, "town": {**TOWNS, "max_level": 0}}
    found = encode(plain, table, Generalize(), context_of(table, limited))
    assert found.nodes().tolist() == [[1, 0], [2, 0]]
    names = [f"c{at}" for at in range(16)]
    wide = pa.table({name: ["Ashford", "Crewe"] for name in names})
    with pytest.raises(UnsupportedError, match="43,046,721 vectors of levels"):
        encode(plain, wide, Generalize(), context_of(wide, dict.fromkeys(names, TOWNS))).nodes()
