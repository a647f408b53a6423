"""Whatever a policy file holds, reading it ends in a policy or in a `PolicyError` that names the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import PolicyError, UsageError
from privpipe.policy import Policy
from privpipe.running.settings_grid import read_grid
from tests.tiers import deep

BASE = "columns: {age: {role: quasi_identifier}}\nguarantees: [{k_anonymity: {k: 2}}]\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 8)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{at}: &a{at} {{<<: [*a{at - 1}, *a{at - 1}, *a{at - 1}]}}\n" for at in range(1, 30)
)
CASES: dict[str, tuple[str | bytes, int, str]] = {
    "a truth that is none": (BASE + "name: !!bool x\n", 3, "tag:yaml.org,2002:bool"),
    "a number that is none": (BASE + "name: !!int x\n", 3, "tag:yaml.org,2002:int"),
    "a null that is none": (BASE + "name: !!null x\n", 3, "tag:yaml.org,2002:null"),
    "bytes": (BASE + "name: !!binary aGVsbG8=\n", 3, "not bytes"),
    "bytes that are none": (BASE + "name: !!binary x\n", 3, "tag:yaml.org,2002:binary"),
    "a call": (BASE + "name: !!python/object/apply:os.system ['true']\n", 3, "python/object/apply"),
    "an object": (BASE + "source: !!python/object:x.y {path: a.csv}\n", 3, "python/object"),
    "a name": (BASE + "name: !!python/name:os.system\n", 3, "python/name"),
    "a tag of its own": (BASE + "name: !foo bar\n", 3, "!foo"),
    "a mapping with a tag": (BASE + "source: !foo {path: a.csv}\n", 3, "!foo"),
    "a list with a tag": (BASE + "measures: !foo []\n", 3, "!foo"),
    "a mapping said to be text": (BASE + "source: !!str {path: a.csv}\n", 3, "tag:yaml.org,2002:str"),
    "a set": (BASE + "source: !!set {path}\n", 3, "tag:yaml.org,2002:set"),
    "a key with a tag": (BASE + "!foo name: a\n", 3, "!foo"),
    "a list as a key": (BASE + "? [a]\n: 1\n", 3, "a key must be text"),
    "an alias of nothing": (BASE + "name: *b\n", 3, "undefined alias"),
    "an alias of itself": ("a: &a [*a]\n" + BASE, 1, "aliases"),
    "a merge of itself": ("a: &a {<<: *a}\n" + BASE, 1, "aliases"),
    "aliases of aliases": (BOMB + BASE, 1, "aliases"),
    "merges of merges": (MERGES + BASE, 4, "aliases"),
    "a merge of a number": ("columns: {<<: 3}\n" + BASE, 1, "`<<` takes a mapping"),
    "a key twice": (BASE + "name: a\nname: b\n", 4, "given twice, first in line 3"),
    "Latin-1": ((BASE + "name: café\n").encode("latin-1"), 3, "not UTF-8"),
    "UTF-16": (BASE.encode("utf-16"), 1, "not UTF-8"),
    "a NUL": (BASE + "name: a\0b\n", 3, "U+0000"),
    "a bell": (BASE + "name: a\ab\n", 3, "U+0007"),
    "a NUL in a name": (BASE + 'name: "a\\0b"\n', 3, "NUL"),
    "a NUL in a path": (BASE + 'source: {path: "a\\0b.csv"}\n', 3, "NUL"),
    "a NUL in a column": ('columns: {"a\\0": {role: quasi_identifier}}\n' + BASE[41:], 1, "NUL"),
    "half a character": (BASE + 'name: "\\ud800"\n', 3, "surrogate"),
    "no character": (BASE + 'name: "\\UFFFFFFFF"\n', 3, "no character"),
    "very deep": (BASE + "name: " + "[" * 5000 + "]" * 5000, 3, "nested too deeply"),
    "deep": (BASE + "name: " + "{a: " * 60 + "1" + "}" * 60, 3, "nested too deeply"),
    "deep blocks": (BASE + "name:\n" + "".join(" " * at + "a:\n" for at in range(1, 900)), 53, "nested too deeply"),
    "a long number": (BASE + "version: " + "9" * 5000 + "\n", 3, "a number of more than 2,100 characters"),
    "a long hexadecimal number": (BASE + "version: 0x" + "f" * 20000 + "\n", 3, "number of more than 2,100"),
    "a large number": (BASE.replace("k: 2", "k: " + "9" * 30), 2, "beyond 64 bits"),
    "a number beyond floats": (BASE.replace("k: 2", "k: 1e400"), 2, "finite"),
    "no number": (BASE + "version: .nan\n", 3, "finite"),
    "a day that is none": (BASE + "name: 2024-02-31\n", 3, "timestamp"),
    "an hour that is none": (BASE + "name: 2024-01-01T00:00:00+99:99\n", 3, "timestamp"),
    "tabs": (BASE + "\tname: x\n", 3, "indent with blanks"),
    "two documents": (BASE + "---\n" + BASE, 3, "another document"),
    "another YAML": ("%YAML 9.9\n---\n" + BASE, 1, "version"),
}


@pytest.mark.parametrize("case", [deep(case) if case == "very deep" else case for case in CASES])
def test_a_fault_of_the_file_names_its_line(tmp_path: Path, case: str) -> None:
    text, line, words = CASES[case]
    path = tmp_path / "release.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolicyError) as caught:
        Policy.load(path)
    found = [problem for problem in caught.value.problems if words in problem.message]
    assert [problem.line for problem in found[:1]] == [line], caught.value
    with pytest.raises(UsageError):
        read_grid(path)


def test_tags_that_say_what_is_there_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(BASE + "name: !!str 2024\nversion: !!int 1\nseed: !!null\nmeasures: !!seq []\n")
    assert Policy.load(path).name == "2024"


def test_a_path_that_cannot_be_is_not_a_crash() -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load("a\0b.yaml")


def nested(depth: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = [inner]
    return inner


def test_documents_of_python_meet_the_same_limits() -> None:
    document = {"columns": {"age": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 2}}]}
    itself: list[Any] = []
    itself.append(itself)
    for wrong in (nested(100), itself):
        with pytest.raises(PolicyError, match="nested too deeply"):
            Policy.from_dict({**document, "name": wrong})
    for text, words in (("a\0", "NUL"), ("\ud800", "surrogate")):
        with pytest.raises(PolicyError, match=words):
            Policy.from_dict({**document, "name": text})
        with pytest.raises(PolicyError, match=words):
            Policy.from_dict({**document, "columns": {text: {"role": "quasi_identifier"}}})
    with pytest.raises(PolicyError, match="64 bits"):
        Policy.from_dict({**document, "version": 10**30})
