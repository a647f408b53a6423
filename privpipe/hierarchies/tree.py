"""Trees written as nested mappings, in place or in a YAML or JSON file, into rows of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from privpipe.errors import HierarchyError
from privpipe.hierarchies.literals import scalar_text
from privpipe.hierarchies.options import ROOT

__all__ = ["read_tree", "tree_rows"]


def read_tree(path: str | PathLike[str], name: str) -> Mapping[Any, Any]:
    """The mapping of a YAML 1.2 or JSON file, with line numbers where the reader knows them.

    Raises
    ------
    HierarchyError
        ``unreadable`` when the file is missing, is no YAML or holds no mapping.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise HierarchyError(f"{name}: the file cannot be read ({why})", kind="unreadable") from None
    try:
        tree = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}" if mark is not None else "the file"
        raise HierarchyError(
            f"{name}: {where} is not well-formed YAML or names a key twice", kind="unreadable"
        ) from None
    except YAMLError:
        raise HierarchyError(f"{name}: the file is not well-formed YAML", kind="unreadable") from None
    if not isinstance(tree, Mapping):
        raise HierarchyError(f"{name}: the file must hold a mapping of labels to their children", kind="unreadable")
    return tree


def tree_rows(tree: Mapping[Any, Any], name: str) -> tuple[list[list[str]], list[int]]:
    """Rows from raw value to root, leaves of less depth padded by repeating the value upwards; and their lines.

    Parameters
    ----------
    tree : mapping
        Label to children: a mapping, a list of raw values, one raw value, or nothing (the key is a raw value).
        A single outermost key is the root; several get a ``*`` above them.
    name : str
        The start of error messages.

    Returns
    -------
    tuple of (list of rows, list of int)
        Lines are empty when the tree does not come from a file.

    Examples
    --------
    >>> tree_rows({"*": {"Europe": {"France": ["Paris"]}, "Asia": ["Tokyo"]}}, "hierarchy")[0]
    [['Paris', 'France', 'Europe', '*'], ['Tokyo', 'Tokyo', 'Asia', '*']]
    """
    single = len(tree) == 1 and next(iter(tree.values())) is not None
    paths = list(_leaves(tree, () if single else (ROOT,), 0, name))
    depth = max((len(path) for path, _ in paths), default=0)
    rows = [[path[-1]] * (depth - len(path)) + list(reversed(path)) for path, _ in paths]
    lines = [line for _, line in paths]
    return rows, lines if all(lines) else []


def _leaves(node: Any, path: tuple[str, ...], line: int, name: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each leaf's path from the root, and the line it stands on (0: not known)."""
    places = getattr(node, "lc", None)
    if isinstance(node, Mapping):
        for key, child in node.items():
            at = places.key(key)[0] + 1 if places is not None else line
            below = (*path, _text(key, name))
            if child is None or (isinstance(child, Mapping | list | tuple) and not child):
                yield below, at
            else:
                yield from _leaves(child, below, at, name)
    elif isinstance(node, list | tuple):
        for index, item in enumerate(node):
            at = places.item(index)[0] + 1 if places is not None else line
            yield from _leaves(item, path, at, name)
    else:
        yield (*path, _text(node, name)), line


def _text(scalar: Any, name: str) -> str:
    try:
        return scalar_text(scalar)
    except ValueError:
        raise HierarchyError(
            f"{name}: a tree's labels and values must be texts, numbers, booleans or dates", kind="type"
        ) from None
