"""Identifier columns: dropped, or replaced by keyed pseudonyms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from unicodedata import normalize

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.marks import Columns
from privpipe.draws.stream import key_id, read_key, require_key_place
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.roles import ColumnType, column_type_of
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["DropIdentifiers", "Pseudonymise"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DropIdentifiers(Transformer):
    """Remove every column with the role identifier that no `pseudonymise` stage names.

    The runner does so by itself before the first stage; written out, the stage documents it. A key that the
    run still needs (a person's) stays inside until the release is written.

    Examples
    --------
    >>> DropIdentifiers.name(), DropIdentifiers().parameters()
    ('drop_identifiers', {})
    """

    taxon = "non-perturbative"
    columns_rule = "none"
    preserves = "every other column"
    reveals = "nothing"

    @property
    def keeps_places(self) -> bool:
        return True

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        kept = {*context.released_identifiers, *context.held_columns}
        dropped = [name for name in context.roles.identifiers if name not in kept]
        return StagePlan(name=self.name(), detail={"dropped": dropped})

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"dropped": list(detail.get("dropped", ()))}  # by the policy's roles

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)  # nothing learnt shapes a value, and the checks are made again

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        dropped = set(plan.detail["dropped"])
        return engine.select(table, [name for name in table.schema.names if name not in dropped])

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls()]


TAGS: Mapping[ColumnType, bytes] = {
    "text": b"t",
    "integer": b"i",
    "number": b"n",
    "decimal": b"m",
    "date": b"d",
    "timestamp": b"s",
    "boolean": b"b",
}
COLLISIONS_ALLOWED = 1e-6
ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", np.uint8)


@dataclass(frozen=True, kw_only=True, repr=False)
class Pseudonymise(Transformer):
    """Replace identifiers by HMAC-SHA256(key, domain, value): the same person keeps the same pseudonym.

    Joins across tables and releases of one key and domain survive, which also makes those releases linkable.
    Pseudonyms remain personal data. Null stays null; empty text is a value. Text is brought to Unicode NFC.

    Parameters
    ----------
    columns : tuple of str
    key : mapping
        ``{from_env: NAME}`` or ``{from_file: PATH}``; at least 32 bytes.
    domain : str
        Pseudonyms of one value differ between domains.
    length : int
        Characters of lower-case base32, 5 bits each, 1 to 51.
    canonical : {"typed", "text"}
        Whether 1, 1.0 and "1" get different pseudonyms.

    Notes
    -----
    An unkeyed hash is not offered: identifiers can be guessed.

    Examples
    --------
    >>> stage = Pseudonymise(columns=("patient",), key={"from_env": "PATIENT_KEY"}, domain="patients")
    >>> stage.length
    26
    """

    taxon = "identifiers"
    preserves = "equality of values; the number of distinct values and of nulls"
    reveals = "which records, also of other releases with this key and domain, are of one person"
    source = "HMAC, RFC 2104"

    columns: Annotated[tuple[str, ...], Columns(), Doc("identifier columns to be replaced")]
    key: Annotated[
        dict[str, str], Doc("where the key is kept: {from_env: NAME} or {from_file: PATH}; at least 32 bytes")
    ] = field(repr=False)
    domain: Annotated[str, Doc("a name for the kind of identifier; other domains give other pseudonyms")]
    length: Annotated[int, Ge(1), Le(51), Doc("characters of a pseudonym, 5 bits each")] = 26
    canonical: Annotated[Literal["typed", "text"], Doc("typed distinguishes 1 from '1'; text does not")] = "typed"

    @property
    def keeps_places(self) -> bool:
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("Pseudonymise", self.columns))
        require_key_place("Pseudonymise", self.key)
        # A separator inside the domain would let two domains and values meet.
        if not isinstance(self.domain, str) or not self.domain or not self.domain.isprintable():
            raise UsageError("Pseudonymise: domain must be a text without control characters, not empty")

    def key_place(self) -> Mapping[str, str] | None:
        return self.key

    def request(self, context: StageContext) -> FactsRequest:
        for column in self.columns:
            if column not in context.schema.names:
                raise DataError(
                    f"{context.place}: column {column!r} is not here{did_you_mean(column, context.schema.names)}"
                )
        return FactsRequest(nulls=self.columns)

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        expected = facts.records**2 / 2 ** (5 * self.length + 1)
        if self.length < 16 and expected >= COLLISIONS_ALLOWED:
            raise DataError(
                f"{context.place}: pseudonyms of {self.length} characters would collide ({expected:.2g} expected "
                f"for {facts.records:,} records); use length 26"
            )
        detail = {"key_id": context.keyed(key_id(read_key("Pseudonymise", self.key))), "nulls": dict(facts.nulls)}
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        for column in self.columns:
            schema = schema.set(schema.get_field_index(column), pa.field(column, pa.string()))
        return schema

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        # The checks are made again; the key stays the plan's, which `run` compares with.
        return replace(plan, detail={**self.learn(engine, table, context).detail, "key_id": plan.detail["key_id"]})

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        key = read_key("Pseudonymise", self.key)
        if plan.detail["key_id"] != context.keyed(key_id(key)):
            raise UsageError(f"{context.place}: the key is not the one the plan was made with")
        return engine.map_rows(table, Pseudonyms(self, key), self.released_schema(table.schema, plan))

    @classmethod
    def examples(cls) -> list[Self]:
        key = {"from_env": "PRIVPIPE_TEST_KEY"}
        return [
            cls(columns=("name",), key=key, domain="people"),
            cls(columns=("name",), key=key, domain="p", length=51),
        ]


@dataclass(frozen=True)
class Pseudonyms:
    """The stage with its key: travels to workers inside a function, never as a literal of a query."""

    stage: Pseudonymise
    key: bytes = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        for column in self.stage.columns:
            rows = rows.replace(column, self._encoded(rows.column(column)))
        return rows

    def _encoded(self, values: pa.Array) -> pa.Array:
        """One HMAC a distinct value of the block."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from privpipe.hierarchies import canonical_text

        kind = column_type_of(values.type)
        encoded = values.dictionary_encode()
        texts = canonical_text(encoded.dictionary, kind).to_pylist()
        tag = b"t" if self.stage.canonical == "text" else TAGS[kind]
        words = self._pseudonyms(tag, [text for text in texts if text is not None])
        known = pa.array([text is not None for text in texts], pa.bool_())
        words = pc.replace_with_mask(pa.nulls(len(texts), words.type), known, words)
        return words.take(encoded.indices)

    def _pseudonyms(self, tag: bytes, texts: list[str]) -> pa.Array:
        """The pseudonym of each text: HMAC written out, since key and domain are hashed once for all texts this way."""
        inner, outer = (sha256(bytes(byte ^ pad for byte in _block(self.key))) for pad in (0x36, 0x5C))
        inner.update(self.stage.domain.encode() + b"\x1f" + tag)
        digests = []
        for text in texts:
            message, digest = inner.copy(), outer.copy()
            message.update(normalize("NFC", text).encode())
            digest.update(message.digest())
            digests.append(digest.digest())
        return _base32(b"".join(digests), self.stage.length)


def _block(key: bytes) -> bytes:
    """The key as HMAC pads it: one block of SHA-256."""
    return (sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")


def _base32(digests: bytes, length: int) -> pa.Array:
    """The first ``length`` characters of each digest of 32 bytes in lower-case base32 (RFC 4648), as texts."""
    import pyarrow as pa

    octets = np.frombuffer(digests, np.uint8).reshape(-1, 32).T.astype(np.uint16)
    characters = np.empty((octets.shape[1], length), np.uint8)
    for at in range(length):
        first, bit = divmod(5 * at, 8)
        pair = octets[first] << 8 | octets[min(first + 1, 31)]
        characters[:, at] = ALPHABET[pair >> (11 - bit) & 31]
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(length), len(characters), [None, pa.py_buffer(characters)]
    ).cast(pa.string())
