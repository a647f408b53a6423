"""Logical types: the seven types a column may have, and the Arrow type each stands for on every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.carried_cells import CARRIED, is_carried
from privpipe.engines.base.text_lists import is_text_list
from privpipe.errors import DataError

__all__ = ["DECIMAL_DIGITS", "arrow_type", "inexact_error", "kind_of", "logical_schema", "logical_type", "type_name"]

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
    """The declared type a logical Arrow type stands for; ``binary`` for bytes, which nobody can declare.

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
    """What every engine says of values beyond what the logical type of their own can hold.

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
