"""``python tests/soak/planted_faults.py [WORD ...]``: a plausible fault in each of forty and more files of all rooms.

`code_mutants.py` makes its faults by rule, in memory, in the rooms that compute verdicts; here each is written by hand
and planted in a copy of the last commit on disk, so that workers and commands started by a test have it as well. The
examples of its file and the tests that should see it run first, then those of its room, without what `make test` leaves
out. The deep tier is asked only where a fault says so. WORD chooses the faults whose file holds it. `--check` only
tells of faults that no longer fit their file. 1 if any fault is not caught.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["FAULTS", "Fault", "caught"]

PROJECT = Path(__file__).resolve().parents[2]
TIERS = {"fast": "not deep and not rare", "deep": "not rare"}
SECONDS = 1800
TESTS_FAILED = 1
COMPILED = ("kernels", "draws")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """One edit of one line.

    Parameters
    ----------
    file : str
        Below ``privpipe/``.
    old, new : str
        What stands once in the file, and what is planted for it.
    tests : tuple of str
        Below ``tests/``: those that should see it first.
    room : str
        Folder below ``tests/`` whose tests answer for it else.
    tier : {"fast", "deep"}
        The first that catches it.
    compiled : bool
        False: kernels run as plain Python, for no compiled one would be of use after the fault is gone.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    room: str
    tier: Literal["fast", "deep"] = "fast"
    compiled: bool = True


FAULTS = (
    Fault(
        "tolerance.py",
        "return np.asarray(value) >= np.asarray(bound)",
        "return np.asarray(value) > np.asarray(bound)",
        ("tolerance",),
        "models",
    ),
    Fault(
        "blocks/verdict.py",
        'return not self.passed and self.severity == "fail"',
        'return self.outcome == "fail" and self.severity == "fail"',
        ("judging/test_assessment.py",),
        "blocks",
    ),
    Fault(
        "blocks/public_edition.py",
        "return None if 0 < figure < self.least else figure",
        "return None if 1 < figure < self.least else figure",
        ("leaving/test_editions.py",),
        "leaving",
    ),
    Fault(
        "border.py",
        'return f" ({name})" if name and "=" not in name else ""',
        'return f" ({name})" if name else ""',
        ("test_border.py",),
        "leaving",
    ),
    Fault(
        "roles.py",
        "return [tuple(group) for group in groups.values() if len(group) > 1]",
        "return [tuple(group) for group in groups.values() if len(group) > 2]",
        ("running/policy/test_policy_faults.py",),
        "running/policy",
    ),
    Fault(
        "plugins.py",
        "found().count(plug_in) > 1",
        "found().count(plug_in) > 2",
        ("plugins/test_refusals.py",),
        "plugins",
    ),
    Fault(
        "kernels/uniqueness/population_estimates.py",
        "return of_classes - first * reciprocals",
        "return of_classes + first * reciprocals",
        ("models/identity/test_population_uniqueness.py",),
        "kernels/uniqueness",
        compiled=False,
    ),
    Fault(
        "draws/elementary.py",
        "if abs(q) <= 0.425:",
        "if q <= 0.425:",
        ("draws/test_draws.py",),
        "draws",
        compiled=False,
    ),
    Fault(
        "judging/assessment.py",
        "return judged and not self.failed and (self.whole is None or not self.whole.failed)",
        "return judged and not self.failed",
        ("judging/test_assessment.py",),
        "judging",
    ),
    Fault(
        "judging/judging.py",
        "uncountable(entry, rules.person, rules.household) or nothing_compared(entry, roles):",
        "uncountable(entry, rules.person, rules.household):",
        ("judging/test_nothing_compared.py",),
        "judging",
    ),
    Fault(
        "judging/judged_table.py",
        "return bool(keys) and not set(keys) & set(self.by.untyped)",
        "return bool(keys)",
        ("judging/test_suppressed.py",),
        "judging",
    ),
    Fault(
        "models/identity/k_map.py",
        "block.take(block.sizes > 0)",
        "block.take(block.sizes > 1)",
        ("models/identity/test_k_map.py",),
        "models",
    ),
    Fault(
        "models/membership/delta_presence.py",
        "self.max < self.min:",
        "self.max <= self.min:",
        ("models/membership/test_delta_presence.py",),
        "models",
    ),
    Fault(
        "models/process/differential_privacy.py",
        'if record["k"] < k:',
        'if record["k"] < k - 1:',
        ("models/process/test_differential_privacy.py",),
        "models",
    ),
    Fault(
        "measures/risk/identity/reidentification_risk.py",
        "return 1.0 / int(sizes[counts > 0].min())",
        "return 1.0 / int(sizes[counts > 1].min())",
        ("measures/risk/identity/test_prosecutor_risk.py", "measures/risk/identity/test_journalist_risk.py"),
        "measures/risk/identity",
    ),
    Fault(
        "measures/risk/releases/joined_releases.py",
        "return bool(most & their_most), most <= their_least, their_most <= least",
        "return bool(most & their_most), most < their_least, their_most <= least",
        ("measures/risk/releases",),
        "leaving",
    ),
    Fault(
        "measures/utility/loss_figures.py",
        "_varies(x) and _varies(y)",
        "_varies(x)",
        ("measures/utility/test_losses_of_whole_tables.py",),
        "measures/utility",
    ),
    Fault(
        "policy/officer.py",
        "if len(by) < 1 + two:",
        "if len(by) < 1:",
        ("record/test_sign_off.py", "record/test_officer.py"),
        "record",
    ),
    Fault(
        "policy/document.py",
        'if path.startswith("~") or PurePosixPath(path).is_absolute():',
        "if PurePosixPath(path).is_absolute():",
        ("leaving/test_no_machine_paths.py",),
        "leaving",
    ),
    Fault(
        "policy/sections.py",
        "if spec.max_bytes < 1:",
        "if spec.max_bytes < 0:",
        ("running/policy/test_source_forms.py",),
        "running/policy",
    ),
    Fault(
        "sinks/target.py",
        'if sink is None or sink.format != "csv":',
        "if sink is None:",
        ("running/test_formula_cells.py",),
        "running",
    ),
    Fault(
        "sinks/target.py",
        "not (self.path.is_dir() and not any(self.path.iterdir())):",
        "not self.path.is_dir():",
        ("leaving/test_folders.py", "running/test_release_run.py"),
        "leaving",
    ),
    Fault(
        "ledger/chain.py",
        "if chain.head.number > len(chain.entries):",
        "if chain.head.number > len(chain.entries) + 1:",
        ("leaving/test_ledger_chain.py",),
        "leaving",
    ),
    Fault(
        "running/attached_source.py",
        "return FLOATS.get(before, 99) <= FLOATS.get(now, 0)",
        "return FLOATS.get(before, 99) <= FLOATS.get(now, 99)",
        ("running/test_drift.py",),
        "running",
    ),
    Fault(
        "running/waiting_runs.py",
        "if documents != expected or any(expected[name] != told[name] for name in told):",
        "if documents != expected:",
        ("record/test_sign_off.py",),
        "record",
    ),
    Fault(
        "record/released.py",
        "return sorted(path.name for path in there if path.name not in known)",
        "return sorted(path.name for path in there if path.stem not in known)",
        ("record/test_verify.py",),
        "record",
    ),
    Fault(
        "reporting/run_comparison.py",
        "(risk < other_risk - EPSILON or loss < other_loss - EPSILON)",
        "(risk < other_risk - EPSILON and loss < other_loss - EPSILON)",
        ("report/test_risk_utility.py",),
        "report",
    ),
    Fault(
        "drafting/guesses.py",
        "and bool(NOMINAL.intersection(words)) and not COUNTS.intersection(words)",
        "and bool(NOMINAL.intersection(words))",
        ("drafting", "cli/test_init.py"),
        "cli",
    ),
    Fault(
        "gx/action.py",
        "if judged and judged >= declared and not lacking:",
        "if judged and not lacking:",
        ("gx/test_gates.py",),
        "gx",
    ),
    Fault(
        "checks/frame_checks.py",
        'if entry.needs_population and "population" not in given:',
        "if False:",
        ("checks/test_checks_of_frames.py",),
        "checks",
    ),
    Fault(
        "stages/fitted_stage.py",
        'if document.pop("checksum") != document_digest(document) or document["privpipe_stage"] != VERSION:',
        'if document.pop("checksum") is None or document["privpipe_stage"] != VERSION:',
        ("stages", "sklearn_stages"),
        "sklearn_stages",
    ),
    Fault(
        "observe/figures.py",
        'if verdict.outcome == "error":',
        'if verdict.outcome == "fail":',
        ("observe",),
        "observe",
    ),
    Fault(
        "cli/gate.py",
        "if assessment.passed:",
        "if not assessment.failed:",
        ("running/test_columns_lost.py",),
        "cli",
    ),
    Fault(
        "hierarchies/dates.py",
        "if UNITS.index(below) >= UNITS.index(above):",
        "if UNITS.index(below) > UNITS.index(above):",
        ("hierarchies/test_dates.py",),
        "hierarchies",
    ),
    Fault(
        "signing/keys.py",
        "return self.signed_at <= moment + SKEW and moment < self.ends(valid_days)",
        "return self.signed_at <= moment + SKEW and moment <= self.ends(valid_days + 1)",
        ("record/test_sign_off.py",),
        "record",
    ),
    Fault(
        "private_files/ownership.py",
        "if not _alive(pid, found[3]) and (handle := _locked(path)) is not None:",
        "if (handle := _locked(path)) is not None:",
        ("leaving/test_temp_folders.py",),
        "leaving",
    ),
    Fault(
        "scheduled/publication.py",
        'return bool((folder / os.path.basename(file["name"])).stat().st_size == file["bytes"])',
        'return bool((folder / os.path.basename(file["name"])).stat().st_size >= file["bytes"])',
        ("scheduled",),
        "scheduled",
    ),
    Fault(
        "transforms/coding/shift_dates.py",
        "return np.where(drawn < self.days, drawn - self.days, drawn - self.days + 1)",
        "return np.where(drawn <= self.days, drawn - self.days, drawn - self.days + 1)",
        ("transforms/coding/test_shift_dates.py",),
        "transforms/coding",
    ),
    Fault(
        "transforms/suppression/record_suppression.py",
        "return np.asarray(block.sizes < self.least, dtype=np.bool_)",
        "return np.asarray(block.sizes <= self.least, dtype=np.bool_)",
        ("transforms/suppression/test_whole_households.py",),
        "transforms/suppression",
    ),
    Fault(
        "engines/base/conversion.py",
        'if found != "text" and wanted not in _MAY_BECOME[found]:',
        'if found == "binary" and wanted not in _MAY_BECOME[found]:',
        ("engines/base/test_typing.py",),
        "engines/base",
    ),
    Fault(
        "engines/readers/unjudged_content.py",
        "elif key not in SPARK or len(text) > LONGEST_WORD:",
        "elif key not in SPARK:",
        ("leaving/test_file_metadata.py",),
        "leaving",
    ),
    Fault(
        "engines/lakes/delta.py",
        "if (self.records is not None and rows != self.records) or last >= rows:",
        "if last >= rows:",
        ("engines/lakes/test_delta.py",),
        "engines/lakes",
    ),
    Fault(
        "engines/databases/sqlite_files.py",
        'if "BOOL" in column.declared and column.least in (0, 1) and column.most in (0, 1):',
        'if "BOOL" in column.declared and column.least in (0, 1):',
        ("engines/databases/test_database_files.py",),
        "engines/databases",
    ),
    Fault(
        "engines/embedded/class_table.py",
        "if query.person is not None or query.weight is not None:",
        "if query.person is not None:",
        ("engines/embedded/test_weighted_classes.py", "engines/embedded/test_packed_classes.py"),
        "engines/embedded",
    ),
    Fault(
        "engines/distributed/row_functions.py",
        "or 0) - (missing > 0)",
        "or 0)",
        ("engines/test_contract_of_types.py",),
        "engines/dask",
    ),
    Fault(
        "engines/distributed/class_parts.py",
        "if query.person is None and query.weight is None else CellReader",
        "if query.person is None else CellReader",
        ("engines/dask/test_classes.py", "engines/test_contract.py"),
        "engines/dask",
    ),
)


def planted_at(home: Path, fault: Fault) -> str:
    """The file with its fault; nothing where the old line does not stand once."""
    text = (home / "privpipe" / fault.file).read_text(encoding="utf-8")
    return text.replace(fault.old, fault.new) if fault.old and text.count(fault.old) == 1 else ""


@contextmanager
def scratch_copy() -> Iterator[Path]:
    """The last commit in a temporary folder."""
    home = Path(tempfile.mkdtemp(prefix="planted-faults-"))
    copy = home / "copy"
    try:
        _git("worktree", "add", "--quiet", "--detach", str(copy))
        for room in COMPILED:  # with what numba keeps of them, which holds for files of the same time only
            shutil.copytree(PROJECT / "privpipe" / room, copy / "privpipe" / room, dirs_exist_ok=True)
        yield copy
    finally:
        shutil.rmtree(home)
        _git("worktree", "prune")


def _git(*words: str) -> None:
    subprocess.run(("git", *words), cwd=PROJECT, check=True)


def caught(copy: Path, fault: Fault) -> str:
    """The test that fails of a fault; nothing where none does."""
    file = copy / "privpipe" / fault.file
    sound, wrong, stamp = file.read_text(encoding="utf-8"), planted_at(copy, fault), file.stat()
    groups = ((f"privpipe/{fault.file}", *(f"tests/{name}" for name in fault.tests)), (f"tests/{fault.room}",))
    file.write_text(wrong, encoding="utf-8")
    try:
        return next((failed for group in groups if (failed := _first_failure(copy, fault, group))), "")
    finally:
        file.write_text(sound, encoding="utf-8")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # else what numba keeps of it would hold no longer


def _first_failure(copy: Path, fault: Fault, tests: tuple[str, ...]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    if not fault.compiled:
        environment["NUMBA_DISABLE_JIT"] = "1"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", TIERS[fault.tier]]
    ran = subprocess.run(
        [*command, *tests], cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if not ran.returncode:
        return ""
    failed = FAILED.search(ran.stdout)
    if ran.returncode != TESTS_FAILED or failed is None:
        raise RuntimeError(f"the tests of {fault.file} cannot be run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return failed[1]


def main(words: list[str]) -> int:
    """1 if a fault is not caught, or fits its file no longer."""
    chosen = [fault for fault in FAULTS if not words or any(word in fault.file for word in words if word != "--check")]
    if "--check" in words:
        chosen = list(FAULTS)
    gone = [fault.file for fault in chosen if not planted_at(PROJECT, fault)]
    print("".join(f"{file}: the line is not there once\n" for file in gone), end="")
    if gone or "--check" in words:
        return int(bool(gone))
    missed = 0
    with scratch_copy() as copy:
        for fault in chosen:
            begun = time.monotonic()
            test = caught(copy, fault)
            missed += not test
            said = f"caught by {test}" if test else f"NOT CAUGHT: {fault.old} -> {fault.new}"
            print(f"{fault.file}: {said} ({fault.tier}, {time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
