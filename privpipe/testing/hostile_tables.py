"""Tables that break careless counting: small, named, each with its reason."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from privpipe.errors import DataError, PrivpipeError
from privpipe.roles import Roles

__all__ = ["HOSTILE_TABLES", "HostileTable", "arrow_table", "many_values"]


SENSITIVE = ("illness", "income")


@dataclass(frozen=True, kw_only=True)
class HostileTable:
    """A table with its roles, as plain Python values and as a frame.

    Parameters
    ----------
    name : str
    why : str
        What goes wrong with it.
    rows : mapping of column to sequence
        Plain values; None, NaN and the like are one missing value. The sensitive columns are ``illness`` (text)
        and ``income`` (number); all others are quasi-identifiers.
    types : mapping of column to str
        Arrow types by name, where they do not follow from the values.
    make : callable, optional
        Builds the frame from the rows, where it is not the plain Arrow table.
    base : mapping of column to sequence
        Values of all records of the original, where they are not those of the rows.
    refused : type of error, optional
        Raised by any engine that reads or judges the table.
    """

    name: str
    why: str
    rows: Mapping[str, Sequence[Any]] = field(repr=False)
    types: Mapping[str, str] = field(default_factory=dict, repr=False)
    make: Callable[[HostileTable], Any] | None = field(default=None, repr=False)
    base: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)
    refused: type[PrivpipeError] | None = None

    def __len__(self) -> int:
        return len(self.rows["illness"])

    def __str__(self) -> str:
        return self.name

    @property
    def roles(self) -> Roles:
        """Quasi-identifiers and sensitive columns; a name that differs from another by case alone has no role."""
        first: dict[str, str] = {}
        for name in self.rows:
            first.setdefault(name.casefold(), name)
        keys = [name for name in first.values() if name not in SENSITIVE]
        return Roles(quasi_identifiers=keys, sensitive=SENSITIVE)

    @property
    def population(self) -> HostileTable:
        """Population of which the table is a sample: its records, half of them again, some with keys it may lack."""
        keys = self.roles.quasi_identifiers
        half = (len(self) + 1) // 2
        rows = {}
        for place, (name, values) in enumerate(self.rows.items()):
            shift = place % max(1, len(self)) if name in keys else 0
            rows[name] = [*values, *list(values)[:half], *list(values)[shift:], *list(values)[:shift]]
        return replace(self, rows=rows, make=None)

    def frame(self) -> Any:
        """The table as a user would hand it over: an Arrow table, or the frame that is the point of it."""
        return arrow_table(self) if self.make is None else self.make(self)


def arrow_table(table: HostileTable) -> Any:
    """The rows as an Arrow table."""
    import pyarrow as pa

    arrays = {}
    for name, values in table.rows.items():
        kind = pa.type_for_alias(table.types[name]) if name in table.types else None
        arrays[name] = pa.array(list(values), type=kind)
    return pa.table(arrays)


def object_frame(table: HostileTable) -> Any:
    """The rows as a pandas frame of Python objects: None stays None and NaN stays NaN, side by side."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in table.rows.items()})


def categorical_frame(table: HostileTable) -> Any:
    """Text columns as pandas categories, with levels that no record has."""
    import pandas as pd

    frame = arrow_table(table).to_pandas()
    for name in ("zip", "illness"):
        levels = ["unused first", *sorted(set(table.rows[name]), reverse=True), "unused last"]
        frame[name] = pd.Categorical(frame[name], categories=levels)
    return frame


def relabelled_frame(table: HostileTable) -> Any:
    """A pandas frame whose index labels repeat and point to other rows."""
    frame = arrow_table(table).to_pandas()
    frame.index = [3, 3, 0, 1, 0, 2][: len(frame)]
    return frame


def repeated_dictionary(table: HostileTable) -> Any:
    """Arrow dictionaries in which one value has two codes."""
    import pyarrow as pa

    plain = arrow_table(table)
    codes = pa.array([0, 1, 0, 1], type=pa.int32())
    same = pa.DictionaryArray.from_arrays(codes, pa.array(["4711", "4711"]))
    return plain.set_column(plain.schema.get_field_index("zip"), "zip", same)


def repeated_column(table: HostileTable) -> Any:
    """Two columns of one name."""
    plain = arrow_table(table)
    return plain.append_column("zip", plain.column("zip"))


def many_values(values: int = 100_000) -> HostileTable:
    """So many distinct sensitive values in four classes, and one class of a single value.

    Too large for every model on every engine, so not among the hostile tables: time and memory must follow the cells,
    not classes times values.
    """
    return HostileTable(
        name="many_values",
        why="classes times values do not fit; codes outgrow a byte, and a character",
        rows={
            "zip": [f"{at % 4}" for at in range(values)] + ["one value"] * 3,
            "illness": [f"illness {at:06d}" for at in range(values)] + ["illness 000007"] * 3,
            "income": [*range(values), 7, 7, 7],
        },
    )


NAN = float("nan")
INF = float("inf")


def _huge() -> dict[str, list[Any]]:
    """One class of 3,000 records among a few of two."""
    size, small = 3000, 6
    return {
        "zip": ["4711"] * size + [f"{i // 2}" for i in range(small)],
        "illness": [f"illness {i % 37}" for i in range(size)] + ["flu", "cold"] * (small // 2),
        "income": [i % 101 for i in range(size)] + list(range(small)),
    }


def _ties() -> dict[str, list[Any]]:
    """Classes of counts 1, 1, 1 and 2, 2, 2 and so on: exp of their entropy is just below 3."""
    rows: dict[str, list[Any]] = {"zip": [], "illness": [], "income": []}
    for times in (1, 2, 3, 5, 7):
        for value in range(3):
            rows["zip"] += [f"{times}"] * times
            rows["illness"] += [("cold", "flu", "gout")[value]] * times
            rows["income"] += [value] * times
    return rows


def _date(day: int) -> datetime.date:
    return datetime.date(2024, 2, day)


def _moment(second: int) -> datetime.datetime:
    return datetime.datetime(2024, 2, 29, 12, 0, second)


HOSTILE_TABLES: Mapping[str, HostileTable] = {
    table.name: table
    for table in (
        HostileTable(
            name="empty",
            why="nothing to judge is an error, not a pass",
            rows={"zip": [], "illness": [], "income": []},
            types={"zip": "string", "illness": "string", "income": "int64"},
            refused=DataError,
        ),
        HostileTable(
            name="one_record",
            why="minima, medians and deviations of one",
            rows={"age": [34], "zip": ["4711"], "illness": ["flu"], "income": [1200]},
        ),
        HostileTable(
            name="one_class",
            why="q equals p, so every distance is 0",
            rows={"zip": ["4711"] * 5, "illness": ["a", "a", "b", "b", "c"], "income": [1, 1, 2, 3, 3]},
        ),
        HostileTable(
            name="all_unique",
            why="as many classes as records",
            rows={
                "age": list(range(30)),
                "zip": [f"{i:04d}" for i in range(30)],
                "illness": [f"illness {i % 4}" for i in range(30)],
                "income": [i % 7 for i in range(30)],
            },
        ),
        HostileTable(name="one_huge_class", why="one group must not need the memory of one batch", rows=_huge()),
        HostileTable(name="ties", why="exp of the entropy of equal counts is 2.9999999999999996", rows=_ties()),
        HostileTable(
            name="nulls_in_keys",
            why="group-by drops missing keys, or a hash merges (null, a) with (a, null)",
            rows={
                "age": [1, 1, None, None, None, None, 1, None, None],
                "zip": ["a", "a", "a", "a", None, None, None, "b", None],
                "illness": ["flu", "cold", "flu", "flu", "cold", "gout", "flu", "cold", "flu"],
                "income": [1, 2, 3, 4, 5, 6, 7, 8, 9],
            },
            types={"age": "int64"},
        ),
        HostileTable(
            name="a_key_always_null",
            why="a column without any value still forms one class",
            rows={
                "age": [None] * 4,
                "zip": ["a", "a", "b", "b"],
                "illness": ["flu", "cold", "flu", "flu"],
                "income": [1, 2, 3, 4],
            },
            types={"age": "int64"},
        ),
        HostileTable(
            name="none_and_nan",
            why="None and NaN are two keys in some engines, and are one value",
            rows={
                "age": [None, NAN, NAN, 1.0, 1.0, None],
                "zip": ["a"] * 6,
                "illness": ["flu", "cold", "flu", "cold", "cold", "gout"],
                "income": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
            },
            make=object_frame,
        ),
        HostileTable(
            name="signed_zeros",
            why="-0.0 equals 0.0, whatever their bits",
            rows={
                "age": [-0.0, 0.0, 0.0, -0.0, 1.0, 1.0],
                "illness": ["flu", "cold", "flu", "cold", "cold", "gout"],
                "income": [-0.0, 0.0, 1.0, 2.0, -0.0, 0.0],
            },
        ),
        HostileTable(
            name="infinities",
            why="infinite numbers are ordinary values; NaN is none",
            rows={
                "age": [INF, INF, -INF, -INF, NAN, None],
                "illness": ["flu", "cold", "flu", "cold", "cold", "gout"],
                "income": [1, 2, 3, 4, 5, 6],
            },
        ),
        HostileTable(
            name="large_integers",
            why="integers with nulls read as floats lose those above 2^53",
            rows={
                "age": [2**53, 2**53 + 1, 2**53, 2**53 + 1, None, None, -(2**62), -(2**62) + 1],
                "illness": ["flu", "cold", "gout", "cold", "cold", "gout", "flu", "flu"],
                "income": [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, 5, 6, 7, 8],
            },
        ),
        HostileTable(
            name="narrow_numbers",
            why="8-bit integers and 32-bit floats are the same logical columns as wide ones",
            rows={
                "age": [1, 1, -128, 127, None, None],
                "height": [0.5, 0.5, 1.25, 1.25, None, None],
                "illness": ["flu", "cold", "gout", "cold", "cold", "gout"],
                "income": [1, 2, 3, 4, 5, 6],
            },
            types={"age": "int8", "height": "float", "income": "int16"},
        ),
        HostileTable(
            name="mixed_numbers",
            why="1 and 1.0 of one column are equal once it has one type",
            rows={
                "age": [1, 1.0, 2, 2.5, 2.0, None],
                "illness": ["flu", "cold", "gout", "cold", "cold", "gout"],
                "income": [1, 2, 3, 4, 5, 6],
            },
            make=object_frame,
        ),
        HostileTable(
            name="mixed_types",
            why="1 and the text 1 in one column: which is which cannot be decided",
            rows={
                "age": [1, "1", 2, "2"],
                "illness": ["flu", "cold", "gout", "cold"],
                "income": [1, 2, 3, 4],
            },
            make=object_frame,
            refused=DataError,
        ),
        HostileTable(
            name="exact_numbers",
            why="decimals compare by value, booleans are not numbers",
            rows={
                "age": [Decimal("1.50"), Decimal("1.50"), Decimal("2.25"), None, Decimal("2.25"), None],
                "member": [True, True, False, None, False, None],
                "illness": ["flu", "cold", "gout", "cold", "gout", "gout"],
                "income": [1, 2, 3, 4, 5, 6],
            },
        ),
        HostileTable(
            name="dates",
            why="dates and timestamps, with missing ones",
            rows={
                "born": [_date(1), _date(1), _date(29), _date(29), None, None],
                "seen": [_moment(1), _moment(1), _moment(1), None, None, None],
                "illness": ["flu", "cold", "gout", "cold", "gout", "gout"],
                "income": [1, 2, 3, 4, 5, 6],
            },
            types={"seen": "timestamp[us]"},
        ),
        HostileTable(
            name="unicode",
            why="text is compared by code points: no trimming, folding or normalising",
            rows={
                "zip": ["NY", "ny", "NY ", "NY", "\u00e9", "e\u0301", "𝔘", "𝔘", "ß", "ss", "\u00e9", "\u200bNY"],
                "illness": [
                    "Grippe",
                    "grippe",
                    "Grippe ",
                    "\u00e9",
                    "e\u0301",
                    "\u00e9",
                    "ß",
                    "ss",
                    "𝔘",
                    "Ü",
                    "ﬁ",
                    "fi",
                ],
                "income": [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3],
            },
        ),
        HostileTable(
            name="look_alikes",
            why="empty text, texts that spell a missing value, and numbers as text are values of their own",
            rows={
                "zip": ["", "", None, None, "null", "NULL", "NaN", "None", "1", "1.0", "01", " 1", "1", "true"],
                "illness": ["", None, "", "flu", "null", "NaN", "None", "", "1", "1.0", "1", "flu", "1", "0"],
                "income": [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7],
            },
        ),
        HostileTable(
            name="separators",
            why="keys that are glued together must not meet: (a|b, c) is not (a, b|c)",
            rows={
                "age": ["a|b", "a", "a,b", "a", 'a"', "a", "a\x1fb", "a", "a\nb", "a", "", "ab"],
                "zip": ["c", "b|c", "c", "b,c", "b", '"b', "c", "b\x1fc", "c", "b\nc", "ab", ""],
                "illness": ["flu", "cold"] * 6,
                "income": [1, 2, 3, 4, 5, 6] * 2,
            },
        ),
        HostileTable(
            name="unused_categories",
            why="a category that no record has is neither a class nor a value",
            rows={
                "zip": ["a", "a", "b", "b", "b", "c"],
                "illness": ["flu", "cold", "gout", "gout", "flu", "cold"],
                "income": [1, 2, 3, 4, 5, 6],
            },
            make=categorical_frame,
        ),
        HostileTable(
            name="repeated_dictionary",
            why="one value with two dictionary codes is one value",
            rows={
                "zip": ["4711"] * 4,
                "illness": ["flu", "cold", "gout", "gout"],
                "income": [1, 2, 3, 4],
            },
            make=repeated_dictionary,
        ),
        HostileTable(
            name="row_labels",
            why="index labels are not positions and no keys",
            rows={
                "zip": ["a", "b", "a", "b", "a", "b"],
                "illness": ["u", "v", "u", "v", "u", "w"],
                "income": [1, 1, 2, 2, 3, 3],
            },
            make=relabelled_frame,
        ),
        HostileTable(
            name="interleaved_classes",
            why="a class that is in every partition is one class",
            rows={
                "zip": [f"{i % 5}" for i in range(200)],
                "illness": [f"illness {i * i % 11}" for i in range(200)],
                "income": [i * 7 % 13 for i in range(200)],
            },
        ),
        HostileTable(
            name="sensitive_nulls",
            why="a missing diagnosis is a value, and has no place in an order",
            rows={
                "zip": ["a", "a", "a", "b", "b", "c"],
                "illness": [None, "flu", None, "flu", "cold", None],
                "income": [None, 1, 2, 3, None, 4],
            },
        ),
        HostileTable(
            name="constant_sensitive",
            why="one value everywhere: no diversity, and distance 0",
            rows={"zip": ["a", "a", "b", "b"], "illness": ["flu"] * 4, "income": [7] * 4},
        ),
        HostileTable(
            name="value_absent_from_class",
            why="values that a class lacks count in its distance",
            rows={
                "zip": ["a"] * 4 + ["b"] * 4 + ["c"] * 2,
                "illness": ["flu", "flu", "cold", "cold", "gout", "flu", "cold", "gout", "gout", "gout"],
                "income": [10, 20, 20, 30, 30, 40, 50, 50, 60, 90],
            },
        ),
        HostileTable(
            name="uneven_classes",
            why="estimates of a population need classes of one, of two and of more; a rare value gains most",
            rows={
                "zip": [f"{at}" for at in range(15) for _ in range((1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 5, 9)[at])],
                "illness": ["flu", "cold", "flu", "gout", "flu", "cold", "flu", "flu", "cold"] * 3
                + ["rare"] * 1
                + ["flu"] * 5,
                "income": [at * at % 7 for at in range(33)],
            },
        ),
        HostileTable(
            name="on_the_threshold",
            why="a distance of 0.35 and a share of 0.25 that floats miss by a bit",
            rows={
                "zip": ["a"] * 10 + ["b"] * 10,
                "illness": ["x"] * 10 + ["x"] * 3 + ["y"] * 7,
                "income": [1] * 10 + [1] * 5 + [2] * 5,
            },
        ),
        HostileTable(
            name="partly_suppressed",
            why="records of which nothing is left are no class; marks next to any other value are values",
            rows={
                "age": ["30", "*", "*", "30", "*", "*", "40", "*", "*", "*", "*"],
                "zip": ["a", "*", "a", "a", "*", "a", "*", "*", "*", "*", "*"],
                "illness": ["flu", "cold", "gout", "cold", "gout", "flu", "flu", "*", "*", "*", None],
                "income": [1, 2, 3, 4, 5, 6, 7, None, None, 8, None],
            },
        ),
        HostileTable(
            name="emptied_by_suppression",
            why="a class and a value that only suppressed records had are gone from the release, not from the base",
            rows={
                "age": ["30", "30", "30", "*", "*", "50", "50"],
                "zip": ["a", "a", "a", "*", "*", "c", "c"],
                "illness": ["flu", "cold", "cold", "*", "*", "gout", "flu"],
                "income": [1, 2, 2, None, None, 1, 2],
            },
            base={
                "illness": ["flu", "cold", "cold", "rare", "gout", "gout", "flu"],
                "income": [1, 2, 2, 9, 8, 1, 2],
            },
        ),
        HostileTable(
            name="all_suppressed",
            why="nothing left is a refusal",
            rows={
                "age": [None] * 3,
                "zip": ["*"] * 3,
                "illness": ["*"] * 3,
                "income": [None] * 3,
            },
            types={"age": "int64", "income": "float64"},
        ),
        HostileTable(
            name="marked_by_others",
            why="a class of marks in every quasi-identifier, a number among them, with all else released",
            rows={
                "age": [30, 30, None, None, None, None],
                "zip": ["a", "a", "*", "*", "*", None],
                "illness": ["flu", "cold", "gout", "*", "*", "*"],
                "income": [1, 2, 3, 4, None, None],
            },
        ),
        HostileTable(
            name="base_of_the_original",
            why="distances compare with all records of the input, suppressed ones too",
            rows={
                "zip": ["a", "a", "b", "b", "b"],
                "illness": ["flu", "cold", "flu", "flu", "cold"],
                "income": [1, 2, 1, 1, 2],
            },
            base={
                "illness": ["flu", "cold", "flu", "flu", "cold", "gout", "gout", "gout"],
                "income": [1, 2, 1, 1, 2, 0, 3, 3],
            },
        ),
        HostileTable(
            name="names_differ_by_case",
            why="two engines take zip and ZIP for one column",
            rows={"zip": ["a", "b"], "ZIP": ["a", "a"], "illness": ["flu", "cold"], "income": [1, 2]},
            refused=DataError,
        ),
        HostileTable(
            name="repeated_column",
            why="two columns of one name",
            rows={"zip": ["a", "b"], "illness": ["flu", "cold"], "income": [1, 2]},
            make=repeated_column,
            refused=DataError,
        ),
    )
}
"""Every hostile table by its name."""
