"""Columns of bytes: carried into the release as they are, or left out; nothing judges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privpipe.engines.base.carried_cells import is_carried
from privpipe.errors import UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["is_bytes", "require_bytes_unjudged", "require_file_of_bytes", "require_flat"]


def is_bytes(kind: object) -> bool:
    """Whether a column's logical type is bytes, which no policy can declare.

    Examples
    --------
    >>> is_bytes("binary"), is_bytes("string")
    (True, False)
    """
    return str(kind) == "binary"


def require_bytes_unjudged(table: Any, policy: Policy) -> None:
    """Refuse columns of bytes that would be judged or transformed: they have no values that people compare.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [
        name
        for name in _bytes(table)
        if policy.columns[name].role not in ("insensitive", "identifier", "carried", "drop")
    ]
    if wrong:
        raise UnsupportedError(
            f"columns of bytes are neither quasi-identifiers nor sensitive ({', '.join(map(repr, wrong))}): give them "
            "the role insensitive or identifier, or make them text before (base64 or hexadecimal digits)"
        )


def require_file_of_bytes(table: Any, policy: Policy, written: str) -> None:
    """Refuse a sink whose format has no bytes, before anything is learnt.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [name for name in _bytes(table) if policy.columns[name].role in ("insensitive", "carried")]
    if wrong and written in ("csv", "json"):
        raise UnsupportedError(
            f"{written} holds no bytes ({', '.join(map(repr, wrong))}): publish as `format: parquet`, leave the "
            "columns out as identifiers, or make them text before"
        )


def require_flat(found: pa.Schema, policy: Policy) -> None:
    """Refuse columns that only Parquet files hold, before anything is learnt, where the sink is none of such files.

    Raises
    ------
    UnsupportedError
        It names the columns.
    """
    wrong = [each.name for each in found if each.name in policy.roles.carried and is_carried(each.type)]
    if wrong:
        raise UnsupportedError(
            f"lists, structs, maps and times are carried into folders of Parquet files alone "
            f"({', '.join(map(repr, wrong))}): publish as `sink: {{path: ..., format: parquet}}`, or give the columns "
            "the role drop"
        )


def _bytes(table: Any) -> list[str]:
    return [field.name for field in table.schema if is_bytes(field.type)]
