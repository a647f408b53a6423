"""An entry of a ledger: what is remembered of one release, sealed to the entry before it by a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privpipe.blocks.release_history import NoiseRows, ReleaseRows, TableRows
from privpipe.draws import Seed
from privpipe.draws.stream import read_key
from privpipe.errors import DataError, SinkError
from privpipe.ledger.folder import canonical, write

__all__ = ["SUFFIX", "Entry", "Seal", "rows_of_table", "table_of_rows"]


def packed_tables(rows: TableRows) -> bytes:
    """Definitions, cells and rows in one archive of arrays, none of which is pickled."""
    arrays: dict[str, Any] = {
        "definitions": np.frombuffer(json.dumps([dict(each) for each in rows.definitions]).encode(), dtype=np.uint8),
        "columns": np.frombuffer(json.dumps(list(rows.columns)).encode(), dtype=np.uint8),
        "persons": rows.persons,
        "leaves": rows.leaves,
        "values": rows.values,
        "present": rows.present,
    }
    for at, cells in enumerate(rows.cells):
        arrays.update({f"cells/{at}/{name}": array for name, array in cells.items()})
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def unpacked_tables(data: bytes) -> TableRows:
    """The same from its bytes.

    Raises
    ------
    ValueError, KeyError, OSError
        They are no such archive.
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    definitions = tuple(json.loads(arrays["definitions"].tobytes()))
    cells = tuple(
        {
            name.split("/", 2)[2]: array
            for name, array in arrays.items()
            if name.startswith("cells/") and name.split("/", 2)[1] == str(at)
        }
        for at in range(len(definitions))
    )
    return TableRows(
        definitions=definitions,
        cells=cells,
        persons=arrays["persons"],
        leaves=arrays["leaves"],
        columns=tuple(json.loads(arrays["columns"].tobytes())),
        values=arrays["values"],
        present=arrays["present"],
    )


CHAIN = b"privpipe/ledger/chain/2"
COMMITMENT = b"privpipe/commitment/1"
VEIL = b"privpipe/ledger/tables/1/"


@dataclass(frozen=True, repr=False)
class Seal:
    """Keyed hashes under a ledger's secret.

    The secret is the declared key followed by the ledger's salt; without a key it is the salt alone, which is next to
    the entries: the chain then proves that nothing was damaged or lost by accident, and nothing against anyone
    who can write the folder, for they can rebuild it. The records of the sinks still show that it is another.

    Parameters
    ----------
    secret : bytes

    Examples
    --------
    >>> seal = Seal(b"a secret")
    >>> seal.link(b"one") == seal.link(b"one"), seal.link(b"one") == seal.link(b"two")
    (True, False)
    >>> seal
    Seal(secret)
    """

    secret: bytes = field(repr=False)

    def __repr__(self) -> str:
        return "Seal(secret)"

    @classmethod
    def of(cls, key: Mapping[str, str] | None, salt: str) -> Seal:
        """The seal of a ledger with this salt.

        Raises
        ------
        UsageError
            The key is not where the policy says, or too short.
        """
        own = read_key("ledger", key) if key is not None else b""
        return cls(own + bytes.fromhex(salt))

    @property
    def seed(self) -> Seed:
        """What keys the hashes of persons, classes and values."""
        return Seed(self.secret)

    def link(self, content: bytes) -> str:
        """The keyed hash of some bytes, in hex."""
        found = self.begin()
        found.update(content)
        return found.hexdigest()

    def begin(self) -> hmac.HMAC:
        """A link to be fed piece by piece."""
        key = hmac.new(self.secret, CHAIN, hashlib.sha256).digest()
        return hmac.new(key, digestmod=hashlib.sha256)

    def genesis(self, ledger: str) -> str:
        """The link before the first entry."""
        return self.link(b"genesis " + ledger.encode())

    def veiled(self, content: bytes, run_id: str) -> bytes:
        """Bytes that no one reads without the secret; veiled once more they are as they were."""
        key = hmac.new(self.secret, VEIL + run_id.encode(), hashlib.sha256).digest()
        stream = np.frombuffer(hashlib.shake_256(key).digest(len(content)), dtype=np.uint8)
        return (np.frombuffer(content, dtype=np.uint8) ^ stream).tobytes()

    def commitment(self) -> str:
        """What shows later that a secret is this one."""
        return "hmac-sha256:" + hmac.new(self.secret, COMMITMENT, hashlib.sha256).hexdigest()


MAGIC = b"privpipe ledger entry 2\n"
SUFFIX = ".entry"
LINK = 32
LONGEST_HEADER = 1 << 22
AT_A_TIME = 1 << 20
NOISE = ("unit_1", "unit_2", "draw_1", "draw_2", "value_1", "value_2")
FOLDS = ("fold_1", "fold_2")
COLUMNS = ("unit_1", "unit_2", "class_1", "class_2", "value_1", "value_2")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The header of an entry, and where its rows are.

    Parameters
    ----------
    path : Path
    header : mapping
        Number, link of the entry before, run, sink, time and figures, as `sealed` writes them.
    link : str
        Its own.
    start, length : int
        Place of the rows in the file.
    """

    path: Path
    header: Mapping[str, Any] = field(repr=False)
    link: str = field(repr=False)
    start: int
    length: int

    @property
    def number(self) -> int:
        """Its place in the chain, from 1."""
        return int(self.header["number"])

    @property
    def run_id(self) -> str:
        """The run that published the release."""
        return str(self.header["run_id"])

    @property
    def target(self) -> str:
        """The sink it was published to."""
        return str(self.header["target"])

    @property
    def before(self) -> str | None:
        """What the sink pointed at before."""
        return None if self.header["before"] is None else str(self.header["before"])

    @property
    def previous(self) -> str:
        """Link of the entry before it."""
        return str(self.header["previous"])

    @classmethod
    def read(cls, path: Path, seal: Seal | None) -> Entry:
        """The header of a file, once the whole file is proved to be as it was written.

        Parameters
        ----------
        seal : Seal or None
            None: nothing is proved.

        Raises
        ------
        DataError
            Any byte of it was changed, or it was never one of this ledger.
        SinkError
            It cannot be read.
        """
        try:
            with path.open("rb") as file:
                return cls._read(path, file, os.fstat(file.fileno()).st_size, seal)
        except OSError as error:
            raise SinkError(f"the ledger cannot be read: {error.strerror}") from None

    @classmethod
    def _read(cls, path: Path, file: Any, size: int, seal: Seal | None) -> Entry:
        start = len(MAGIC) + 8
        first = file.read(start)
        length = int.from_bytes(first[len(MAGIC) :], "big")
        if not first.startswith(MAGIC) or length > LONGEST_HEADER or size < start + length + LINK:
            raise _changed(path)
        header = file.read(length)
        link = None if seal is None else seal.begin()
        if link is not None:
            link.update(first)
            link.update(header)
        left = size - start - length - LINK
        file.seek(start + length)
        while link is not None and left:
            part = file.read(min(left, AT_A_TIME))
            if not part:
                raise _changed(path)
            link.update(part)
            left -= len(part)
        file.seek(size - LINK)
        last = file.read(LINK)
        if link is not None and not hmac.compare_digest(link.digest(), last):
            raise _changed(path)
        rows = size - start - length - LINK
        return cls(path=path, header=_header(header, path), link=last.hex(), start=start + length, length=rows)

    def rows(self, seal: Seal) -> ReleaseRows:
        """What is remembered of the release.

        Parameters
        ----------
        seal : Seal
            What is remembered of tables is not read without it.

        Raises
        ------
        DataError
            The rows do not read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                data = file.read(self.length)
            told, tables = self.header.get("noise"), self.header.get("tables")
            if tables is not None:
                cut = int(tables["starts"])
                rows = rows_of_table(pq.read_table(io.BytesIO(data[:cut])))
                return replace(rows, tables=unpacked_tables(seal.veiled(data[cut:], self.run_id)))
            cut = self.length if told is None else int(told["starts"])
            rows = rows_of_table(pq.read_table(io.BytesIO(data[:cut])), self.header.get("sensitive"))
            return rows if told is None else replace(rows, noise=_noise(told, pq.read_table(io.BytesIO(data[cut:]))))
        except (OSError, KeyError, ValueError, TypeError, pa.ArrowException):
            raise _changed(self.path) from None

    @staticmethod
    def sealed(rows: ReleaseRows, header: Mapping[str, Any], seal: Seal) -> bytes:
        """The file of an entry."""
        payload = _parquet(table_of_rows(rows))
        figures: dict[str, Any] = {
            "records": int(rows.records.sum()),
            "units": len(np.unique(rows.units, axis=0)),
            "sensitive": rows.sensitive,
            "noise": None,
        }
        if rows.noise is not None:
            stages = [{"column": column, "key": key} for column, key in rows.noise.stages]
            figures["noise"] = {"starts": len(payload), "stages": stages, "bare": list(rows.noise.bare)}
            payload += _parquet(_noise_table(rows.noise))
        if rows.tables is not None:
            figures["tables"] = {"starts": len(payload), "number": len(rows.tables.definitions)}
            payload += seal.veiled(packed_tables(rows.tables), str(header["run_id"]))
        head = canonical({**header, **figures})
        body = MAGIC + len(head).to_bytes(8, "big") + head + payload
        return body + bytes.fromhex(seal.link(body))

    @staticmethod
    def keep(path: Path, data: bytes) -> None:
        """Write a sealed entry, whole or not at all."""
        write(path, data)


def table_of_rows(rows: ReleaseRows) -> Any:
    """The rows of a release as a pyarrow Table."""
    import pyarrow as pa

    words = [rows.units, rows.classes, *([] if rows.values is None else [rows.values])]
    columns = dict(zip(COLUMNS, np.hstack(words).T, strict=False))
    folds = {} if rows.folds is None else dict(zip(FOLDS, rows.folds.T, strict=True))
    return pa.table({**columns, "records": rows.records, **folds})


def rows_of_table(table: Any, sensitive: str | None = None) -> ReleaseRows:
    """The rows of a release from a pyarrow Table."""
    pairs = [np.column_stack([table[name].to_numpy() for name in COLUMNS[at : at + 2]]) for at in (0, 2)]
    told = "value_1" in table.schema.names
    values = np.column_stack([table[name].to_numpy() for name in COLUMNS[4:]]) if told else None
    folded = FOLDS[0] in table.schema.names
    folds = np.column_stack([table[name].to_numpy() for name in FOLDS]) if folded else None
    return ReleaseRows(pairs[0], pairs[1], table["records"].to_numpy(), values, sensitive=sensitive, folds=folds)


def _noise_table(noise: NoiseRows) -> Any:
    import pyarrow as pa

    words = np.hstack([noise.units, noise.draws, noise.values]).T
    return pa.table({**dict(zip(NOISE, words, strict=True)), "stage": noise.stage, "ratio": noise.ratios})


def _noise(told: Mapping[str, Any], table: Any) -> NoiseRows:
    units, draws, values = (
        np.column_stack([table[name].to_numpy() for name in NOISE[at : at + 2]]) for at in (0, 2, 4)
    )
    stages = tuple((str(each["column"]), str(each["key"])) for each in told["stages"])
    ratios, stage = table["ratio"].to_numpy(), table["stage"].to_numpy()
    return NoiseRows(stages, units, stage, draws, values, ratios, bare=tuple(map(str, told["bare"])))


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False, write_statistics=False)
    return out.getvalue()


def _header(data: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(data)
        texts = ("previous", "run_id", "target", "time")
        sound = all(isinstance(found[name], str) for name in texts) and isinstance(found["identity"], dict)
        whole = all(type(found[name]) is int and found[name] >= 0 for name in ("number", "records", "units"))
        if sound and whole and isinstance(found["before"], str | None):
            return dict(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise _changed(path)


def _changed(path: Path) -> DataError:
    return DataError(f"{path.name} was changed, is torn, or is of another ledger")
