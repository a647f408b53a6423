"""Names and logical types of columns, cells carried as texts, and schemas of two tables stacked or paired."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import Table
from privpipe.errors import DataError, did_you_mean
from privpipe.roles import not_text

__all__ = [
    "CARRIED",
    "COUNT",
    "DECIMAL_DIGITS",
    "RESERVED",
    "arrow_type",
    "beside_schema",
    "carried_cells",
    "carried_text",
    "check_declared",
    "check_names",
    "check_record_ids",
    "inexact_error",
    "is_carried",
    "is_text_list",
    "json_of_lists",
    "kind_of",
    "logical_schema",
    "logical_type",
    "require_columns",
    "require_same",
    "stacked_schema",
    "type_name",
]


ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(sign): "\\" + name for sign, name in zip('"\\\n\r\t\b\f', '"\\nrtbf', strict=True)
}
"""As Jackson writes them, which Spark uses."""


def is_text_list(kind: pa.DataType) -> bool:
    """Whether a source type is a list of texts; lists that are all empty have items of no type.

    Examples
    --------
    >>> is_text_list(pa.list_(pa.string())), is_text_list(pa.list_(pa.int64()))
    (True, False)
    """
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        return False
    held = kind.value_type
    return bool(pt.is_null(held) or pt.is_string(held) or pt.is_large_string(held) or pt.is_string_view(held))


def json_of_lists(lists: pa.Array) -> pa.Array:
    """Each list as the text of a JSON array; null stays null.

    Examples
    --------
    >>> json_of_lists(pa.array([["milk", 'a "b"', None], [], None])).to_pylist()
    ['["milk","a \\\\"b\\\\"",null]', '[]', None]
    """
    return pa.array([None if items is None else _list_json(items) for items in lists.to_pylist()], pa.string())


def _list_json(items: list[str | None]) -> str:
    return "[" + ",".join("null" if item is None else f'"{item.translate(ESCAPES)}"' for item in items) + "]"


CARRIED: Final = "carried"
"""Among declared types: nothing looks into the column's values, and what has no logical type is carried as text."""
_CARRIED = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_map, pt.is_time, pt.is_duration)


def is_carried(kind: pa.DataType) -> bool:
    """Whether columns of a type are carried as texts: no column of the seven declared types holds them.

    Examples
    --------
    >>> is_carried(pa.list_(pa.int8())), is_carried(pa.time64("us")), is_carried(pa.int8())
    (True, True, False)
    """
    if pt.is_struct(kind):
        return not any(pt.is_union(each.type) for each in kind)
    return any(test(kind) for test in _CARRIED)


def carried_text(cells: pa.Array) -> pa.Array:
    """Each cell as JSON, the same bytes on every engine; null stays null.

    Examples
    --------
    >>> carried_text(pa.array([{"n": [1, None]}, None])).to_pylist()
    ['{"n":[1,null]}', None]
    """
    if is_text_list(cells.type):
        return json_of_lists(cells)
    plain = cells
    for kind in _steps(cells.type):
        plain = plain.cast(kind)
    found = (None if cell is None else _json(cell) for cell in plain.to_pylist())
    return pa.array(list(found), pa.string())


def carried_cells(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of `carried_text` in their original type.

    Examples
    --------
    >>> kind = pa.list_(pa.time64("us"))
    >>> cells = pa.array([[1, None], None], kind)
    >>> carried_cells(carried_text(cells), kind).equals(cells)
    True
    """
    exact, plain = _steps(kind)
    read = _reader(plain)
    cells = pa.array([None if text is None else read(json.loads(text)) for text in texts.to_pylist()], plain)
    return cells.cast(exact).cast(kind)


def _json(cell: Any) -> str:
    return json.dumps(cell, ensure_ascii=False, separators=(",", ":"), default=_text)


def _text(held: bytes | Decimal) -> str:
    return held.decode("latin-1") if isinstance(held, bytes) else str(held)


def _steps(kind: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """The types by which cells become what JSON holds: units and zones that engines share, then numbers."""
    return _mapped(kind, _shared), _mapped(kind, _plain)


def _mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if pt.is_map(kind):
        return pa.map_(_mapped(kind.key_type, leaf), _mapped(kind.item_type, leaf))
    if pt.is_struct(kind):
        return pa.struct([each.with_type(_mapped(each.type, leaf)) for each in kind])
    if pt.is_fixed_size_list(kind):
        return pa.list_(_mapped(kind.value_type, leaf), kind.list_size)
    if pt.is_large_list(kind):
        return pa.large_list(_mapped(kind.value_type, leaf))
    return pa.list_(_mapped(kind.value_type, leaf)) if pt.is_list(kind) else leaf(kind)


def _shared(kind: pa.DataType) -> pa.DataType:
    if pt.is_dictionary(kind):
        return _shared(kind.value_type)
    unit = "ns" if getattr(kind, "unit", "") == "ns" else "us"
    if pt.is_timestamp(kind):
        return pa.timestamp(unit, "UTC" if kind.tz else None)
    if pt.is_time(kind):
        return pa.time64(unit)
    if pt.is_duration(kind):
        return pa.duration(unit)
    return pa.date32() if pt.is_date(kind) else kind


def _plain(kind: pa.DataType) -> pa.DataType:
    kind = _shared(kind)
    if pt.is_date(kind):
        return pa.int32()
    if pt.is_temporal(kind):
        return pa.int64()
    return pa.float64() if pt.is_floating(kind) else kind


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Convert JSON values to what Arrow accepts for a type: pairs of maps, bytes and decimals."""
    if pt.is_map(kind):
        key, item = _reader(kind.key_type), _reader(kind.item_type)
        return lambda pairs: None if pairs is None else [(key(left), item(right)) for left, right in pairs]
    if pt.is_struct(kind):
        fields = {each.name: _reader(each.type) for each in kind}
        return lambda held: None if held is None else {name: read(held.get(name)) for name, read in fields.items()}
    if pt.is_nested(kind):
        each = _reader(kind.value_type)
        return lambda items: None if items is None else [each(item) for item in items]
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return lambda text: None if text is None else text.encode("latin-1")
    if pt.is_decimal(kind):
        return lambda text: None if text is None else Decimal(text)
    return lambda value: value


DECIMAL_DIGITS: Final = 38
"""Precision of every decimal column; the scale is the source's."""

_ARROW: Final = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "boolean": pa.bool_(),
}


_SERVED: Final[Mapping[pa.DataType, tuple[Callable[[pa.DataType], bool], ...]]] = {
    pa.string(): (pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_null, is_text_list),
    pa.int64(): (pt.is_integer,),
    pa.float64(): (pt.is_floating,),
    pa.bool_(): (pt.is_boolean,),
    pa.date32(): (pt.is_date,),
    pa.binary(): (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary),
}


def arrow_type(kind: str, *, scale: int = 0) -> pa.DataType:
    """The Arrow type of a declared type; `scale` is that of a decimal.

    Examples
    --------
    >>> arrow_type("integer"), arrow_type("decimal", scale=2)
    (DataType(int64), Decimal128Type(decimal128(38, 2)))
    """
    return pa.decimal128(DECIMAL_DIGITS, scale) if kind == "decimal" else _ARROW[kind]


def kind_of(found: pa.DataType) -> str:
    """The declared type of a logical Arrow type; ``binary`` for bytes, which cannot be declared.

    Examples
    --------
    >>> kind_of(pa.timestamp("us", "UTC")), kind_of(pa.decimal128(38, 2))
    ('timestamp', 'decimal')
    """
    if pt.is_timestamp(found):
        return "timestamp"
    if pt.is_decimal(found):
        return "decimal"
    if pt.is_binary(found):
        return "binary"
    return next(kind for kind, known in _ARROW.items() if known == found)


def logical_type(found: pa.DataType, column: str, *, carried: bool = False) -> pa.DataType:
    """The logical type of a source type.

    Parameters
    ----------
    column : str
        For the error.
    carried : bool
        Whether nothing looks into its values: then what has no logical type is text, see `carried_text`.

    Raises
    ------
    DataError
        Nested types (but lists of texts, which become the texts of JSON arrays), times of day and durations where they
        are not carried; decimals of more than 38 digits.

    Examples
    --------
    >>> logical_type(pa.dictionary(pa.int8(), pa.large_string()), "zip")
    DataType(string)
    >>> logical_type(pa.uint8(), "age"), logical_type(pa.timestamp("ns", "Europe/Paris"), "at")
    (DataType(int64), TimestampType(timestamp[us, tz=UTC]))
    """
    if pt.is_dictionary(found) or pt.is_run_end_encoded(found):
        return logical_type(found.value_type, column)
    if pt.is_decimal(found):
        if found.precision - found.scale > DECIMAL_DIGITS or found.precision > DECIMAL_DIGITS or found.scale < 0:
            raise DataError(f"column {column!r}: decimals have at most {DECIMAL_DIGITS} digits, this is {found}")
        return pa.decimal128(DECIMAL_DIGITS, found.scale)
    if pt.is_timestamp(found):
        return pa.timestamp("us", "UTC" if found.tz else None)
    for target, tests in _SERVED.items():
        if any(test(found) for test in tests):
            return target
    if carried and is_carried(found):
        return pa.string()
    remedy = " unless its role is `carried`: give it that role, or `drop`, or" if is_carried(found) else ";"
    raise DataError(
        f"column {column!r} has the type {type_name(found)}, which no release can carry{remedy} flatten it or cast it "
        "to text"
    )


def type_name(found: pa.DataType) -> str:
    """A type without the names of fields: in a struct that was made of mappings they are cells.

    Examples
    --------
    >>> type_name(pa.list_(pa.struct({"Ann": pa.int64()}))), type_name(pa.int8())
    ('list<item: struct>', 'int8')
    """
    if pt.is_struct(found) or pt.is_union(found):
        return "struct"
    if pt.is_map(found):
        return f"map<{type_name(found.key_type)}, {type_name(found.item_type)}>"
    return f"list<item: {type_name(found.value_type)}>" if pt.is_nested(found) else str(found)


def inexact_error(column: str, found: pa.DataType) -> DataError:
    """The message of every engine about values beyond what their own logical type can hold.

    Examples
    --------
    >>> inexact_error("n", pa.uint64())
    DataError("column 'n': values of uint64 that int64 cannot hold exactly; bring them into its range, or to text")
    """
    target = logical_type(found, column)
    return DataError(
        f"column {column!r}: values of {found} that {target} cannot hold exactly; bring them into its range, or to text"
    )


def logical_schema(schema: pa.Schema, types: Mapping[str, str] = MappingProxyType({})) -> pa.Schema:
    """The logical schema of a source's, field by field; metadata (a pandas index, say) is dropped.

    Parameters
    ----------
    types : mapping
        Declared types, of which only what is carried matters.
    """
    return pa.schema(
        [(each.name, logical_type(each.type, each.name, carried=types.get(each.name) == CARRIED)) for each in schema]
    )


RESERVED = "__privpipe"
"""Prefix of the hidden columns."""
COUNT = "__count"
"""The column in which `Engine.distinct` puts its counts, next to those of a table."""


def check_names(names: Sequence[str]) -> None:
    """Refuse names that some engine could not distinguish, or that privpipe reserves.

    Raises
    ------
    DataError
        A name is not text, occurs twice, differs from another by case alone (DuckDB and Spark fold case), is empty, or
        is reserved; no column at all.

    Examples
    --------
    >>> check_names(["age", "zip"])
    >>> check_names(["age", "Age"])
    Traceback (most recent call last):
    privpipe.errors.DataError: columns 'age' and 'Age' differ only in case; ...
    """
    if not names:
        raise DataError("the table has no columns")
    if wrong := not_text(names):
        raise DataError(wrong)
    seen: dict[str, str] = {}
    for name in names:
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(
                f"column {name!r}: a name holds NUL or half of a surrogate pair, which no file format carries"
            )
        if not name:
            raise DataError("a column has an empty name; give it one")
        if name.casefold().startswith(RESERVED) or name.casefold() == COUNT:
            raise DataError(
                f"column {name!r}: {COUNT!r} and names that start with {RESERVED!r} are reserved; rename the column"
            )
        folded = name.casefold()
        known = seen.get(folded)
        if known == name:
            raise DataError(f"column {name!r} occurs {names.count(name)} times; names must be unique")
        if known is not None:
            raise DataError(
                f"columns {known!r} and {name!r} differ only in case; not every engine distinguishes them; rename one"
            )
        seen[folded] = name


def require_columns(table: Any, columns: Iterable[str]) -> None:
    """Refuse a column that a table lacks.

    Parameters
    ----------
    table : object with a `schema`

    Raises
    ------
    DataError
    """
    for name in columns:
        if name not in table.schema.names:
            raise DataError(f"column {name!r} is not in the table{did_you_mean(name, table.schema.names)}")


def check_declared(names: Sequence[str], types: Mapping[str, str] | Iterable[str], *, hint: str = "") -> None:
    """Refuse a declared column that the data lacks.

    Parameters
    ----------
    hint : str
        A sentence on the likely cause (a wrong delimiter, say), put at the end.

    Raises
    ------
    DataError
    """
    declared = [name for name, kind in types.items() if kind != CARRIED] if isinstance(types, Mapping) else types
    missing = [name for name in declared if name not in set(names)]
    if missing:
        near = did_you_mean(missing[0], names) if len(missing) == 1 else ""
        listed = ", ".join(repr(name) for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise DataError(f"declared column{plural} {listed} not in the data{near}{hint}", column=missing[0])


def check_record_ids(column: str, records: int, missing: int, repeated: int) -> None:
    """Refuse a column whose values are not unique.

    Parameters
    ----------
    missing, repeated : int
        Records without a value; records whose value another one before them has.

    Raises
    ------
    DataError

    Examples
    --------
    >>> check_record_ids("name", 10, 0, 0)
    >>> check_record_ids("name", 10, 1, 2)
    Traceback (most recent call last):
    privpipe.errors.DataError: record id column 'name' must be unique and complete: 1 of 10 records have no value, ...
    """
    if missing or repeated:
        raise DataError(
            f"record id column {column!r} must be unique and complete: {missing:,} of {records:,} records have no "
            f"value, {repeated:,} repeat one; name another column, or leave `record_id` out"
        )


def beside_schema(released: Any, original: Any, columns: Mapping[str, str]) -> pa.Schema:
    """The released columns, then those of the original under their new names.

    Parameters
    ----------
    released, original : Table
    columns : mapping of str to str
        Names in the original, and what they are called here.

    Raises
    ------
    DataError
        A column that the original lacks, a new name that the release has, or a table without record ids.
    """
    if not (original.has_record_ids and released.has_record_ids):
        raise DataError("original and released records cannot be aligned: one of the tables carries no record ids")
    fields = list(released.schema)
    for name, new in columns.items():
        if name not in original.schema.names:
            raise DataError(f"column {name!r} is not in the original{did_you_mean(name, original.schema.names)}")
        if new in released.schema.names:
            raise DataError(f"the released table has a column {new!r} already")
        fields.append(original.schema.field(name).with_name(new))
    return pa.schema(fields)


def stacked_schema(schema: pa.Schema, other: pa.Schema, columns: Sequence[str], tag: str) -> pa.Schema:
    """Schema of some columns of two tables in one, the tag after them.

    Raises
    ------
    DataError
        A column that one of them lacks, or that has another type there: values of two types are never equal.

    Examples
    --------
    >>> schema = pa.schema([("zip", pa.string()), ("age", pa.int64())])
    >>> stacked_schema(schema, schema, ["zip"], "side").names
    ['zip', 'side']
    """
    for name in columns:
        for fields, whose in ((schema, "first"), (other, "second")):
            if name not in fields.names:
                raise DataError(
                    f"column {name!r} is not in the {whose} of two tables to be counted together"
                    f"{did_you_mean(name, fields.names)}"
                )
        kinds = schema.field(name).type, other.field(name).type
        if kinds[0] != kinds[1]:
            raise DataError(
                f"column {name!r} holds {kinds[0]} in one table and {kinds[1]} in the other, which never match; "
                "declare its type, or generalize both tables alike"
            )
    return pa.schema([*(schema.field(name) for name in columns), pa.field(tag, pa.int64())])


def require_same(table: Table, other: Table) -> None:
    """Refuse to append records of other columns, or with ids to some without.

    Raises
    ------
    DataError
    """
    stacked_schema(table.schema, other.schema, table.schema.names, "")
    if table.has_record_ids != other.has_record_ids:
        raise DataError("one of two tables to be joined end to end has record ids and the other has none")
