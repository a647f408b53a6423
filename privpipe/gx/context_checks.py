"""What a data context would miss: suites that lost expectations, checkpoints that do not raise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ruamel.yaml import YAML

from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.gx import store
from privpipe.gx.action import DECLARED, RaiseOnFailure, is_privacy_type

__all__ = ["ContextFinding", "check"]


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
    root = store.root_of(context)
    path = root / store.CONFIGURATION
    document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    suites = store.store_of(document, path)
    found: list[ContextFinding] = []
    private: dict[str, str] = {}
    for suite in _documents(root, suites):
        held, declared = _counts(suite)
        found += _of_suite(str(suite["name"]), held, declared)
        if held or declared:
            private[str(suite["name"])] = str(suite.get("id"))
    if private and suites.get("module_name") != store.__name__:
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
            f"a store of the context lies in a {backend.get('class_name')!r}, which is not looked through; check "
            f"a copy of it in a folder ({_TUPLES})"
        )
    for path in sorted((root / backend["base_directory"]).rglob("*.json")):
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{str(path)!r} cannot be read: {type(error).__name__}") from None
