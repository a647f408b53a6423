"""Documents that would cost more than their length: read or refused within a bound of processor time and memory.

Each is read in a process of its own, whose limits end it: no clock is asked.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from privpipe.draws import Seed
from privpipe.errors import PolicyError, UsageError, did_you_mean
from privpipe.policy import Policy
from privpipe.policy.plain_values import MOST_NODES, MOST_PROBLEMS, Report, from_yaml
from tests.tiers import deep

HEAD = "version: 1\ncolumns: {q: {role: quasi_identifier}}\nguarantees: [{k_anonymity: {k: 2}}]\n"
OVER_S = "version: 1\ncolumns: {q: {role: quasi_identifier}, s: {role: sensitive}}\nguarantees:\n"
SECONDS, BYTES = 20, 1 << 30
"""Twice what a user is promised: processors of test machines are shared. Quadratic readers take minutes."""


def columns(count: int, role: str = "quasi_identifier") -> str:
    return "version: 1\ncolumns:\n  q: {role: quasi_identifier}\n" + "".join(
        f"  c{at}: {{role: {role}}}\n" for at in range(count)
    )


DOCUMENTS: dict[str, Callable[[], str]] = {
    "a seed of hexadecimal digits": lambda: HEAD + "seed: 0x" + "f" * 900_000 + "\n",
    "a seed of decimal digits": lambda: HEAD + "seed: " + "9" * 900_000 + "\n",
    "an insecure seed": lambda: HEAD + "seed: {insecure: 0x" + "f" * 900_000 + "}\n",
    "sexagesimals of YAML 1.1": lambda: "%YAML 1.1\n---\n" + HEAD + "name: " + ":".join(["59"] * 300_000) + "\n",
    "fractions of YAML 1.1": lambda: "%YAML 1.1\n---\n" + HEAD + "name: " + ":".join(["59"] * 300_000) + ".5\n",
    "merged lists": lambda: (
        "".join(f"a{at}: &a{at} {{k{at}: 1}}\n" for at in range(15_000))
        + f"b: {{<<: [{','.join(f'*a{at}' for at in range(15_000))}]}}\n"
        + HEAD
    ),
    "a chain of merges": lambda: (
        "a0: &a0 {x: 1}\n" + "".join(f"a{at}: &a{at} {{<<: *a{at - 1}, y: 1}}\n" for at in range(1, 15_000)) + HEAD
    ),
    "aliases": lambda: "a: &a [" + "x," * 400 + "]\nb: [" + "*a," * 100_000 + "]\n" + HEAD,
    "brackets": lambda: "x: " + "[" * 400_000 + "]" * 400_000 + "\n" + HEAD,
    "one long text": lambda: HEAD + 'name: "' + "\\x41" * 220_000 + '"\n',
    "keys given twice": lambda: HEAD + "a: 1\n" * 180_000,
    "unknown keys": lambda: HEAD + "".join(f"k{at}: 1\n" for at in range(55_000)),
    "equal guarantees": lambda: OVER_S + "- k_anonymity: {k: 2}\n" * 24_000,
    "distinct guarantees": lambda: (
        OVER_S + "".join(f"- distinct_l_diversity: {{column: s, l: {at + 2}}}\n" for at in range(24_000))
    ),
    "guarantees with lists": lambda: (
        columns(6_000)
        + "guarantees:\n"
        + "".join(f"- k_anonymity: {{k: 2, quasi_identifiers: [c{at}]}}\n" for at in range(6_000))
    ),
    "guarantees of unknown columns": lambda: (
        columns(6_000)
        + "guarantees:\n"
        + "".join(f"- k_anonymity: {{k: 2, quasi_identifiers: [d{at}]}}\n" for at in range(6_000))
    ),
    "misspelt roles": lambda: columns(24_000, "quasi_identifer") + "guarantees: [{k_anonymity: {k: 2}}]\n",
    "sensitive columns": lambda: columns(20_000, "sensitive") + "guarantees: [{k_anonymity: {k: 2}}]\n",
    "stages": lambda: HEAD + "transform:\n" + "- suppress_records: {}\n" * 24_000,
}
READER = """
import sys
from privpipe.errors import PolicyError
from privpipe.policy import Policy
try:
    Policy.load(sys.argv[1])
except PolicyError as error:
    print(len(str(error)))
else:
    print(0)
"""


PEAK = """
import re, resource, pathlib
status = pathlib.Path("/proc/self/status")  # without what the parent held, which Linux counts in ru_maxrss
found = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
print((int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024)
"""


def limited() -> None:
    """In the child: it is killed where it takes longer, and allocates no more."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


USUAL = ("an insecure seed",)


@pytest.mark.parametrize(
    "text", [text if name in USUAL else deep(text) for name, text in DOCUMENTS.items()], ids=DOCUMENTS
)
def test_a_policy_of_a_megabyte_is_read_or_refused(text: Callable[[], str], tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text())
    watched = READER + PEAK
    command = [sys.executable, "-c", watched, str(path)]
    done = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    length, most = map(int, done.stdout.split())
    assert length < 2_000_000  # no one reads a list of 24,000 problems
    assert most < BYTES


@pytest.mark.parametrize(
    "digits", ["0x" + "f" * 5_000, "9" * 5_000, "-0x" + "f" * 1_000, "{insecure: 0x" + "f" * 5_000 + "}"]
)
def test_a_seed_of_thousands_of_digits_is_a_fault_of_the_policy(digits: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"{HEAD}seed: {digits}\n")
    with pytest.raises(PolicyError, match=r"policy.yaml:4: seed"):
        Policy.load(path)
    with pytest.raises(UsageError, match="at most 2,048 bits"):
        Seed.insecure(16**5_000)


def test_a_seed_of_a_few_hundred_digits_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"{HEAD}seed: 0x{'0123456789abcdef' * 20}\n")
    assert Policy.load(path).seed is not None


def test_problems_end() -> None:
    report = Report({}, "policy.yaml")
    for at in range(MOST_PROBLEMS):
        report.wrong(("columns", at), "is wrong")
    with pytest.raises(PolicyError, match=f"more than {MOST_PROBLEMS:,} problems; the rest is not checked") as raised:
        report.wrong(("columns", "one more"), "is wrong")
    assert len(raised.value.problems) == MOST_PROBLEMS + 1


@pytest.mark.deep
def test_what_is_too_large_is_refused_with_its_line_and_remedy() -> None:
    lines = "".join(f"k{at}: 1\n" for at in range(MOST_NODES))
    with pytest.raises(PolicyError, match=r"policy.yaml:\d+: .*put large hierarchies into files"):
        from_yaml(lines, "policy.yaml")


def test_what_is_merged_keeps_the_lines_of_what_is_written() -> None:
    document, report = from_yaml("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n", None)
    assert document["b"] == {"x": 3, "y": 2}
    assert (report.lines[("b", "x")], report.lines[("b", "y")]) == (4, 1)


def test_names_among_very_many_are_found_by_their_letters_alone() -> None:
    names = [f"column {at}" for at in range(5_000)]
    assert did_you_mean("COLUMN 4999", names) == "; did you mean 'column 4999'?"
    assert did_you_mean("colum 4999", names) == ""
    assert did_you_mean("colum 4", names[:10]) == "; did you mean 'column 4'?"
