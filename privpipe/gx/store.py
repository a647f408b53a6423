"""A store of suites that loads the privacy expectations by itself, and refuses a suite that lost one.

Named in the configuration of a data context, it is imported by Great Expectations in every process that opens the
context, so that no script can forget to.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.data_context import AbstractDataContext, FileDataContext
from great_expectations.data_context.store.expectations_store import ExpectationsStore as PlainStore
from great_expectations.exceptions import ExpectationNotFoundError
from great_expectations.expectations.registry import get_expectation_impl
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from privpipe.border import bordered
from privpipe.errors import DataError, UsageError
from privpipe.gx.action import DECLARED, RaiseOnFailure, is_privacy_type

__all__ = ["CONFIGURATION", "ContextFinding", "ExpectationsStore", "check", "protect", "root_of", "store_of"]


CONFIGURATION: Final = "great_expectations.yml"
_FOLDERS = (".", "gx", "great_expectations")


class ExpectationsStore(PlainStore):
    """Suites of a data context; a suite is read whole or not at all.

    Great Expectations drops expectations of a suite that it cannot create, and continues. This store raises `DataError`
    instead, and records how many privacy expectations each suite was saved with. It has the name of the class it
    replaces: next to a store of any other name Great Expectations creates its own.
    """

    def get(self, key: Any) -> dict[str, Any]:
        """A suite as a dictionary.

        Raises
        ------
        DataError
            An expectation of it cannot be made, or it holds fewer privacy expectations than it was saved with.
        """
        found: dict[str, Any] = super().get(key)
        _require_whole(found)
        return found

    def serialize(self, value: Any) -> Any:
        """A suite as text, with the number of its privacy expectations."""
        if isinstance(value, ExpectationSuite):
            held = sum(is_privacy_type(expectation.expectation_type) for expectation in value.expectations)
            if held or "privpipe" in (value.meta or {}):
                value.meta = {**(value.meta or {}), "privpipe": {DECLARED: held}}
        return super().serialize(value)


def _require_whole(suite: Mapping[str, Any]) -> None:
    unknown = 0
    for expectation in suite["expectations"]:
        try:
            get_expectation_impl(expectation["type"])
        except ExpectationNotFoundError:
            unknown += 1
    if unknown:
        raise DataError(
            f"suite {suite['name']!r}: {unknown} of its {len(suite['expectations'])} expectations are of no type that "
            "is installed here, and Great Expectations would pass over them; install what brings them"
        )
    held = sum(is_privacy_type(expectation["type"]) for expectation in suite["expectations"])
    declared = ((suite.get("meta") or {}).get("privpipe") or {}).get(DECLARED, 0)
    if held < declared:
        raise DataError(
            f"suite {suite['name']!r} holds {held} of the {declared} privacy expectations it was saved with: a process "
            "that did not import privpipe.gx has saved it; restore it from version control, or make it again"
        )


def root_of(context: Any) -> Path:
    """The folder of a data context's configuration: the one given, or ``gx`` in it, or that of an open context.

    Raises
    ------
    UsageError
        There is no configuration.
    """
    if isinstance(context, AbstractDataContext):
        if not isinstance(context, FileDataContext):
            raise UsageError(
                f"a {type(context).__name__} keeps no files; open one that does with "
                '`gx.get_context(mode="file", project_root_dir=...)`'
            )
        context = context.root_directory
    for folder in _FOLDERS:
        if (Path(context) / folder / CONFIGURATION).is_file():
            return Path(context) / folder
    raise UsageError(
        f"{str(context)!r} is not a data context: no {CONFIGURATION} in it, nor in its folder gx; name the folder that "
        'was given to `gx.get_context(mode="file", project_root_dir=...)`'
    )


@bordered
def protect(context: Any) -> bool:
    """Have every process that opens a data context load the privacy expectations.

    Names the module of `ExpectationsStore` in the context's configuration; all else in it stays unchanged.

    Parameters
    ----------
    context : str, Path or FileDataContext
        Folder of the context, or of its project; or the open context, whose own copy of the configuration is changed
        too. A context that is open elsewhere writes the copy it has read, without the line, when it next saves a data
        source: `check` finds that.

    Returns
    -------
    bool
        Whether anything was changed: False where the context was protected before.

    Raises
    ------
    UsageError
        No data context, or one whose suites are in a store of another class.
    """
    path = root_of(context) / CONFIGURATION
    yaml = YAML()
    document = _read(path, yaml)
    store = store_of(document, path)
    if store["class_name"] != ExpectationsStore.__name__ or store.get("module_name", __name__) != __name__:
        raise UsageError(
            f"{str(path)!r} keeps suites in a store of class {store['class_name']!r}; make that a subclass of "
            f"{__name__}.{ExpectationsStore.__name__}"
        )
    if isinstance(context, FileDataContext):
        context.config.stores[document["expectations_store_name"]]["module_name"] = __name__
    if "module_name" in store:
        return False
    store.insert(1, "module_name", __name__)
    text = io.StringIO()
    yaml.dump(document, text)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text.getvalue(), encoding="utf-8")
    fresh.replace(path)
    return True


def store_of(document: Any, path: Path) -> Any:
    """The entry of the store of suites in the configuration of a data context.

    Raises
    ------
    UsageError
        There is none.
    """
    try:
        store = document["stores"][document["expectations_store_name"]]
        store["class_name"]
    except (KeyError, TypeError) as error:
        raise UsageError(f"{str(path)!r} names no store of suites: {type(error).__name__}") from None
    return store


def _read(path: Path, yaml: YAML) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {type(error).__name__}") from None


_TUPLES: Final = "TupleFilesystemStoreBackend"
_ACTION: Final = RaiseOnFailure.__fields__["type"].default


@dataclass(frozen=True)
class ContextFinding:
    """One thing in a data context that may let a table pass unjudged.

    Parameters
    ----------
    kind : str
        ``lost``: a suite holds fewer privacy expectations than it was saved with. ``unprotected``: a process that does
        not import `privpipe.gx` evaluates none. ``undeclared``: a suite does not say how many it must hold.
        ``does_not_stop``: a checkpoint of a privacy suite reports failures and raises nothing.
    where : str
        Name of the suite or of the checkpoint, or the configuration's file.
    text : str
        What it means and what to do.
    """

    kind: Literal["lost", "unprotected", "undeclared", "does_not_stop"]
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@bordered
def check(context: Any) -> list[ContextFinding]:
    """Look through the files of a data context, without opening it.

    Parameters
    ----------
    context : str, Path or FileDataContext
        Folder of the context, or of its project; or the context itself.

    Returns
    -------
    list of ContextFinding
        Empty where each suite is whole, each process that opens the context loads the privacy expectations, and each
        checkpoint of a privacy suite raises an error when one fails.

    Raises
    ------
    UsageError
        No data context, or one whose suites are not in a folder of it.
    """
    root = root_of(context)
    path = root / CONFIGURATION
    document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    suites = store_of(document, path)
    found: list[ContextFinding] = []
    private: dict[str, str] = {}
    for suite in _documents(root, suites):
        held, declared = _counts(suite)
        found += _of_suite(str(suite["name"]), held, declared)
        if held or declared:
            private[str(suite["name"])] = str(suite.get("id"))
    if private and suites.get("module_name") != __name__:
        text = (
            f"a process that opens the context without `import privpipe.gx` evaluates no privacy expectation of its "
            f"{len(private)} suite(s) and reports success; run `privpipe gx protect` on the context"
        )
        found.insert(0, ContextFinding("unprotected", str(path), text))
    return [*found, *_of_checkpoints(root, document, private)]


def _of_suite(name: str, held: int, declared: int | None) -> Iterator[ContextFinding]:
    if held < (declared or 0):
        text = f"holds {held} of the {declared} privacy expectations it was saved with; restore it, or make it again"
        yield ContextFinding("lost", name, text)
    elif held and declared is None:
        text = (
            f"holds {held} privacy expectations and does not say so, hence a loss would not be found; save it with "
            "`privpipe.gx.save_suite`, or once through a protected context"
        )
        yield ContextFinding("undeclared", name, text)


def _counts(suite: Mapping[str, Any]) -> tuple[int, int | None]:
    held = sum(is_privacy_type(str(expectation["type"])) for expectation in suite["expectations"])
    return held, ((suite.get("meta") or {}).get("privpipe") or {}).get(DECLARED)


def _of_checkpoints(root: Path, document: Mapping[str, Any], private: Mapping[str, str]) -> Iterator[ContextFinding]:
    stores = document["stores"]
    named = {
        str(each["id"]): str(each["suite"]["name"])
        for each in _documents(root, stores.get("validation_definition_store"))
    }
    for checkpoint in _documents(root, stores.get(document.get("checkpoint_store_name", ""))):
        judged = {named.get(str(each["id"])) for each in checkpoint["validation_definitions"]} & set(private)
        if judged and _ACTION not in {action["type"] for action in checkpoint.get("actions") or ()}:
            text = (
                f"runs {len(judged)} privacy suite(s) and raises nothing when they fail; add the action "
                "`privpipe.gx.RaiseOnFailure`, or test the result's `success`"
            )
            yield ContextFinding("does_not_stop", str(checkpoint["name"]), text)


def _documents(root: Path, kept: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The documents of one store, in the order of their names."""
    backend = (kept or {}).get("store_backend") or {}
    if not backend:
        return
    if backend.get("class_name") != _TUPLES:
        raise UsageError(
            f"a store of the context is in a {backend.get('class_name')!r}, which is not looked through; check "
            f"a copy of it in a folder ({_TUPLES})"
        )
    for path in sorted((root / backend["base_directory"]).rglob("*.json")):
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{str(path)!r} cannot be read: {type(error).__name__}") from None
