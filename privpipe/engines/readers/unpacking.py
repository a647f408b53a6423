"""Packed files as bytes: counted while they unpack, since a few kilobytes may hold terabytes."""

from __future__ import annotations

import errno
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from privpipe.errors import DataError, EngineError, PrivpipeError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "MOST_BYTES",
    "PACKED",
    "Compression",
    "Unpacking",
    "changed_error",
    "is_packed",
    "packing_of",
    "reading",
    "unpacked",
    "unreached",
]


Compression = Literal["none", "gz", "zst", "bz2", "xz", "zip"]
PACKED = (".gz", ".bz2", ".zst", ".xz", ".zip")
CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
MOST_BYTES = 4 * 2**30
"""What a packed file may unpack to unless `max_bytes` says otherwise: it is read whole."""
CHUNK = 2**24
LIES_THERE = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)
)
"""What the place of the file says, and no device, network or process: another try meets the same."""


def is_packed(path: str) -> bool:
    """Whether a file's ending shows that it is packed.

    Examples
    --------
    >>> is_packed("a.csv.GZ"), is_packed("a.csv")
    (True, False)
    """
    return path.casefold().endswith(PACKED)


def packing_of(path: str, said: Compression | None = None) -> Compression | None:
    """How a file is packed: as is said, else by its ending; None where it is not.

    Examples
    --------
    >>> packing_of("a.csv.GZ"), packing_of("a.csv", "zip"), packing_of("a.gz", "none")
    ('gz', 'zip', None)
    """
    if said is None and is_packed(path):
        said = path.casefold().rpartition(".")[2]  # type: ignore[assignment]
    return None if said == "none" else said


@contextmanager
def reading(path: str, what: str) -> Iterator[None]:
    """Read a file of a source; what goes wrong comes out as ours.

    Parameters
    ----------
    what : str
        What the file should be, as in "CSV".

    Raises
    ------
    DataError
        The file's content is damaged; there is no such file, or it may not be read.
    EngineError
        The device, the network or the memory gave way.
    """
    name = Path(path).name
    try:
        yield
    except MemoryError:
        raise EngineError(
            f"memory ran out while {name} was read; cut it into smaller files, or give the process more"
        ) from None
    except OSError as error:
        raise (_damaged(name, what) if error.errno is None else unreached(f"cannot read {name}", error)) from None
    except pa.ArrowNotImplementedError:
        raise DataError(
            f"{name}: the {what} file is written in a way that is not read here (its codec, encoding or types); write "
            "it with its writer's defaults"
        ) from None
    except (pa.ArrowException, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error):
        raise _damaged(name, what) from None


def unreached(what: str, error: OSError) -> PrivpipeError:
    """What a failed call of the file system is to a run: the data's fault, or a breakdown that may pass.

    Examples
    --------
    >>> [unreached("cannot read a.csv", OSError(number, "")) for number in (errno.ENOENT, errno.EIO)]
    [DataError('cannot read a.csv: No such file or directory'), EngineError('cannot read a.csv: Input/output error')]
    """
    kind = DataError if error.errno in LIES_THERE else EngineError
    return kind(f"{what}: {os.strerror(error.errno or 0)}")


def changed_error(path: str) -> EngineError:
    """The message about a file that is no longer the one that was opened."""
    return EngineError(
        f"{Path(path).name} changed while it was read; run again once its writer is done, or give the run a copy"
    )


def _damaged(name: str, what: str) -> DataError:
    return DataError(f"{name}: not a readable {what} file (truncated, damaged or of another format)")


class Unpacking(io.RawIOBase):
    """The bytes of a packed file, as they unpack.

    Parameters
    ----------
    path : str
    most : int
        Bytes it may unpack to. What a file's own header states about its size is never believed.
    packing : str, optional
        How it is packed; default: by its ending.
    """

    def __init__(self, path: str, most: int = MOST_BYTES, packing: Compression | None = None) -> None:
        super().__init__()
        self._path, self._most, self._seen = path, most, 0
        with reading(path, "packed"):
            self._stream: Any = _opened(path, packing_of(path, packing))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        with reading(self._path, "packed"):
            data = self._stream.read(len(view))
        self._seen += len(data)
        if self._seen > self._most:
            raise DataError(
                f"{Path(self._path).name}: unpacks to more than {self._most:,} bytes; if it is meant to, raise "
                "`max_bytes` of the source (a packed file is read whole), or cut it into several files"
            )
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed and hasattr(self, "_stream"):
            self._stream.close()
        super().close()


def _opened(path: str, packing: Compression | None) -> Any:
    if packing == "zip":
        return _only_member(path)
    if packing == "xz":
        return lzma.open(path)
    return pa.input_stream(path, compression=CODECS.get(packing or ""))


def _only_member(path: str) -> Any:
    """The one file of a zip; folders and what macOS puts next to files are none."""
    with zipfile.ZipFile(path) as archive:
        files = [each for each in archive.infolist() if not (each.is_dir() or each.filename.startswith("__MACOSX/"))]
        if len(files) != 1:
            raise DataError(
                f"{Path(path).name}: the zip holds {len(files):,} files; a source takes a zip of one file, or a folder "
                "of files: unpack it"
            )
        try:
            return archive.open(files[0])
        except (RuntimeError, NotImplementedError):
            raise DataError(
                f"{Path(path).name}: the zip is encrypted, or packed in a way that is not known here; unpack it"
            ) from None


def unpacked(path: str, most: int = MOST_BYTES, packing: Compression | None = None) -> bytes:
    """All bytes of a packed file.

    Raises
    ------
    DataError
        More than `most`; damaged or truncated.
    EngineError
        The file cannot be reached, or memory ran out.
    """
    with Unpacking(path, most, packing) as file, reading(path, "packed"):
        found = io.BytesIO()
        chunk = memoryview(bytearray(CHUNK))
        while size := file.readinto(chunk):
            found.write(chunk[:size])
        return found.getvalue()
