"""Save and load in Spark ML's own format, through the file systems of the session; no pickles and no code."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from privpipe.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from privpipe.transforms.face import FittedStage

__all__ = ["Reader", "Writer", "learnt_of", "text_of"]


PLAN = "plan.json"
OWNER_ALONE = "600"


class Writer(MLWriter):
    """Writes Params, and what a model learnt in addition.

    Parameters
    ----------
    instance : AskedParams
    require_savable : callable
        Asked before anything is removed or written.
    """

    def __init__(self, instance: Any, require_savable: Callable[[], None]) -> None:
        super().__init__()
        self.instance = instance
        self.require_savable = require_savable

    def save(self, path: str) -> None:
        """Write to a folder of any file system of the session.

        Raises
        ------
        UsageError
            The folder is there already, or a Param holds what no file must.
        """
        self.require_savable()
        text = self.instance._learnt_text() if hasattr(self.instance, "_learnt_text") else None
        session = self.sparkSession
        if self.shouldOverwrite:
            self._handleOverwrite(path)
        metadata = DefaultParamsWriter._get_metadata_to_save(self.instance, session)
        _write_metadata(session, metadata, path)
        if text is not None:
            _write_private(session, text, _within(path, PLAN))

    def _handleOverwrite(self, path: str) -> None:  # noqa: N802 - Spark ML's name
        from privpipe.engines.spark.session import is_connect

        if not is_connect(self.sparkSession):
            super()._handleOverwrite(path)
            return
        try:
            from pyspark.ml.connect.readwrite import RemoteMLWriter
        except ImportError:
            raise UnsupportedError("this Spark Connect cannot overwrite what was saved; give another path") from None
        RemoteMLWriter.handleOverwrite(path, True)


class Reader(MLReader[Any]):
    """Reads what `Writer` wrote.

    Parameters
    ----------
    kind : class
        Of which something was written.
    """

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        """The estimator or model.

        Raises
        ------
        UsageError
            Something else was saved there, or by a version with other Params; a model was fitted with a seed that is
            not where it was.
        """
        session = self.sparkSession
        text = session.read.text(_within(path, "metadata")).first()[0]
        metadata = DefaultParamsReader._parseMetaData(text)
        wanted = f"{self.kind.__module__}.{self.kind.__name__}"
        if metadata["class"] != wanted:
            raise UsageError(f"{path!r} holds a {metadata['class']}, not a {wanted}")
        found = self.kind()
        found._resetUid(metadata["uid"])
        try:
            DefaultParamsReader.getAndSetParams(found, metadata)
        except AttributeError:
            raise UsageError(f"{path!r} was saved by a privpipe whose {self.kind.__name__} has other params") from None
        if hasattr(found, "_read_learnt"):
            found._read_learnt(session.read.text(_within(path, PLAN), wholetext=True).first()[0], path)
        return found._loaded()


def text_of(learnt: FittedStage) -> str:
    """A fitted stage as the text that its `save` writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, PLAN)
        learnt.save(file)
        return file.read_text(encoding="utf-8")


def learnt_of(text: str, path: str, seed: Any) -> FittedStage:
    """The fitted stage of such a text.

    Parameters
    ----------
    path : str
        Where it was read, for errors.
    seed : mapping or None
        Where the seed is kept.

    Raises
    ------
    UsageError
    """
    from privpipe.transforms.face import FittedStage

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, PLAN)
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        try:
            return FittedStage.load(file, seed=seed)
        except UsageError as error:
            raise UsageError(str(error).replace(str(file), path)) from None


def _within(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


def _write_metadata(session: Any, text: str, path: str) -> None:
    from pyspark.errors import AnalysisException

    try:
        _write_text(session, text, _within(path, "metadata"))
    except AnalysisException as error:
        if "PATH_ALREADY_EXISTS" not in str(error):
            raise
        raise UsageError(f"{path!r} is there already; `write().overwrite().save(path)` replaces it") from None


def _write_text(session: Any, text: str, path: str) -> None:
    session.createDataFrame([(text,)], schema="value string").coalesce(1).write.text(path)


def _write_private(session: Any, text: str, path: str) -> None:
    """One file that is its owner's alone before a byte is in it."""
    from privpipe.engines.spark.session import is_connect

    if is_connect(session):
        _write_text(session, text, path)
        return
    hadoop = session._jvm.org.apache.hadoop.fs
    place = hadoop.Path(path)
    system = place.getFileSystem(session._jsc.hadoopConfiguration())
    stream = system.create(place)
    try:
        system.setPermission(place, hadoop.permission.FsPermission(OWNER_ALONE))
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
