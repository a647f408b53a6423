"""``privpipe doctor``: whether this machine can run what a policy requires, one check per function."""

from __future__ import annotations

import importlib.util
import operator
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from privpipe.cli.arguments import JsonOption
from privpipe.cli.console import print_json, put, say
from privpipe.errors import EngineError, PrivpipeError, UsageError

__all__ = ["Finding", "check_packages", "check_solver", "doctor", "examine"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Parameters
    ----------
    name : str
    state : {"ok", "warning", "failed"}
        A warning is about something that the policy does not ask for.
    found : str
        What was seen.
    remedy : str
        What to do.
    """

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    remedy: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return asdict(self)


_NAME = re.compile(r"[\w.-]+")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+)")
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def check_packages() -> Finding:
    """Every package the core needs, by its metadata alone: importing them all takes seconds."""
    missing, other, found = [], [], []
    try:
        requirements = metadata.requires("privpipe") or []
    except metadata.PackageNotFoundError:
        return Finding(
            "packages", "warning", "privpipe runs from a folder and is not installed", "pip install privpipe"
        )
    for requirement in requirements:
        named = _NAME.match(requirement)
        if named is None or "extra ==" in requirement:
            continue
        try:
            version = metadata.version(named[0])
        except metadata.PackageNotFoundError:
            missing.append(named[0])
            continue
        found.append(f"{named[0]} {version}")
        asked = requirement.partition(";")[0][named.end() :].strip()
        if not _within(version, asked):
            other.append(f"{named[0]} {version} is installed, but {asked} is needed")
    if missing or other:
        told = [f"missing: {', '.join(missing)}"] * bool(missing) + other
        return Finding("packages", "failed", "; ".join(told), "pip install --upgrade privpipe")
    return Finding("packages", "ok", ", ".join(found) or "all")


def check_solver() -> Finding:
    """Whether a small integer program is modelled and solved, the way cell suppression does it."""
    title, remedy = "integer programs", "pip install --upgrade --force-reinstall pulp scipy"
    try:
        from privpipe.kernels.integer_programs import NAME, PACKAGE
        from privpipe.transforms.local_suppression.integer_programs import new_program, new_variable, solve

        program = new_program()
        whole = new_variable(program, "x", 9)
        program += whole + 0
        program += 2 * whole >= 3
        solved = solve(program, seconds=60)
    except PrivpipeError as error:
        return Finding(title, "failed", str(error), remedy)
    except Exception as error:  # noqa: BLE001 whatever breaks a foreign library is the finding
        return Finding(title, "failed", f"no test program could be modelled ({type(error).__name__})", remedy)
    if not solved.proved or whole.value() != 2:
        return Finding(title, "failed", f"{PACKAGE} gives a wrong optimum", remedy)
    told = f"{NAME} in {PACKAGE} {metadata.version(PACKAGE)} solves them, pulp {metadata.version('pulp')} models them"
    return Finding(title, "ok", told)


def _within(version: str, asked: str) -> bool:
    """Whether a version is within bounds as our own requirements write them.

    Examples
    --------
    >>> _within("1.26.4", ">=2.0"), _within("2.0.0", ">=1.5,!=2.0.0"), _within("2.0.1", "!=2.0.0,>=1.5")
    (False, False, True)
    """
    return all(_HOLDS[sign](_release(version), _release(bound)) for sign, bound in _BOUND.findall(asked))


def _release(version: str) -> tuple[int, ...]:
    """Its numbers without trailing zeros; what is behind them (rc1, .post1) is left out.

    Examples
    --------
    >>> _release("2.0.0rc1"), _release("1.10.3")
    ((2,), (1, 10, 3))
    """
    numbers = [int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part]  # type: ignore[index]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


LEAST_PYTHON = (3, 11)
LEAST_JAVA = 17
EXTRAS = {"dask": "dask", "spark": "pyspark", "gx": "great_expectations"}
PARQUET_ENDINGS = (".parquet", ".pq")


def examine(
    *,
    files: Sequence[Path],
    engines: Sequence[str],
    target: Path | None,
    temp: Sequence[Path] = (),
    clean: bool = False,
) -> list[Finding]:
    """Every check, in order.

    Raises
    ------
    UsageError
        An unknown engine.
    """
    try:
        from privpipe.engines import ENGINES, engine_fault
    except ImportError as error:  # as with pyarrow and a numpy that it was not built for
        return [check_python(), check_packages(), _unloadable(error)]
    for name in engines:
        if wrong := engine_fault(name):
            raise UsageError(wrong)
    asked = set(engines) or {"embedded"}
    left = check_leftovers(temp, clean)  # before an engine opens, which removes them
    findings = [check_python(), check_packages(), check_solver(), check_java("spark" in asked)]
    others = sorted(asked - set(ENGINES))
    findings += [check_engine(name, name in asked) for name in (*ENGINES, *others) if name in asked or _installed(name)]
    findings.append(check_plugins())
    findings.append(check_spark_python("spark" in asked))
    findings.append(check_writable(target or Path.cwd(), target is not None))
    findings.append(left)
    for file in files:
        findings += check_file(file, "spark" in asked)
    return findings


def check_python() -> Finding:
    """The interpreter's version."""
    version = platform.python_version()
    if sys.version_info >= LEAST_PYTHON:
        return Finding("python", "ok", version)
    return Finding("python", "failed", version, f"privpipe needs {'.'.join(map(str, LEAST_PYTHON))} or newer")


def _unloadable(error: ImportError) -> Finding:
    """Which package could not be imported, so that no engine opens."""
    culprit = (error.name or "a package").partition(".")[0]
    return Finding(
        "engine embedded", "failed", f"{culprit} cannot be imported ({type(error).__name__})", "reinstall its packages"
    )


def check_java(required: bool) -> Finding:
    """A Java that Spark can use."""
    if not required and not _installed("spark"):
        return Finding("java", "ok", "not needed: pyspark is not installed")
    version = java_version()
    state: Literal["warning", "failed"] = "failed" if required else "warning"
    remedy = f"Spark needs Java {LEAST_JAVA} or newer: install it, or set JAVA_HOME"
    if version is None:
        return Finding("java", state, "none found", remedy)
    if version < LEAST_JAVA:
        return Finding("java", state, f"version {version}", remedy)
    return Finding("java", "ok", f"version {version}")


def java_version() -> int | None:
    """Major version of the Java that Spark would start; None without one."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        return None
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def check_engine(name: str, required: bool) -> Finding:
    """Whether an engine opens; Spark is started only when it is asked for."""
    state: Literal["warning", "failed"] = "failed" if required else "warning"
    if not _installed(name):
        return Finding(f"engine {name}", state, "not installed", f"pip install 'privpipe[{name}]'")
    if name == "spark" and not required:
        return Finding(f"engine {name}", "ok", f"pyspark {metadata.version('pyspark')}; `--engine spark` starts it")
    from privpipe.engines import open_engine

    try:
        with open_engine(name) as engine:
            versions = ", ".join(f"{package} {version}" for package, version in engine.resources.versions.items())
    except PrivpipeError as error:
        return Finding(f"engine {name}", state, "does not open", str(error))
    except Exception as error:  # noqa: BLE001 whatever breaks a foreign library is the finding
        return Finding(f"engine {name}", state, f"does not open: {type(error).__name__}", "reinstall its packages")
    return Finding(f"engine {name}", "ok", f"opens ({versions})")


def check_plugins() -> Finding:
    """What other distributions add; a policy that uses one which is not sound is refused when it is read."""
    from privpipe import plugins

    found = plugins.found()
    broken = [each for each in found if plugins.fault(each)]
    told = ", ".join(f"{each.name} ({each.distribution} {each.version})" for each in found) or "none installed"
    if broken:
        unsound = ", ".join(each.name for each in broken)
        return Finding("plug-ins", "warning", f"{told}; not sound: {unsound}", "`privpipe plugins` shows why")
    return Finding("plug-ins", "ok", told)


def check_spark_python(required: bool) -> Finding:
    """Spark's workers take whatever `python3` is first on the path, unless it is configured."""
    told = os.environ.get("PYSPARK_PYTHON")
    if not required and not _installed("spark"):
        return Finding("PYSPARK_PYTHON", "ok", "not needed: pyspark is not installed")
    remedy = "export PYSPARK_PYTHON to the interpreter privpipe is installed in, on every worker"
    state: Literal["warning", "failed"] = "failed" if required else "warning"
    if told is None:
        usual = shutil.which("python3")
        same = usual is not None and os.path.realpath(usual) == os.path.realpath(sys.executable)
        return Finding("PYSPARK_PYTHON", "ok" if same else "warning", "not set", "" if same else remedy)
    if shutil.which(told) is None:
        return Finding("PYSPARK_PYTHON", state, "names no program on this machine", remedy)
    return Finding("PYSPARK_PYTHON", "ok", "set")


def check_writable(folder: Path, asked: bool) -> Finding:
    """Whether a release could be staged here, by trying."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return Finding("write access", "ok", str(folder))
    except OSError as error:
        state: Literal["warning", "failed"] = "failed" if asked else "warning"
        return Finding("write access", state, f"{folder}: {error.strerror}", "choose another target")


def check_leftovers(temp: Sequence[Path], clean: bool) -> Finding:
    """Folders of spilled rows whose process was killed; the next run of the same user removes them, or this does."""
    from privpipe.private_files import leftovers, remove_leftovers

    places = [Path(tempfile.gettempdir()), *temp]
    found = leftovers(places)
    if not found:
        return Finding("temporary files", "ok", "no folders of killed runs")
    size = sum(each.bytes for each in found)
    told = f"{len(found)} folder(s) of killed runs, {size:,} bytes: {', '.join(str(each.path) for each in found)}"
    if not clean:
        return Finding(
            "temporary files", "warning", told, "`privpipe doctor --clean` removes them; so does the next run"
        )
    gone = remove_leftovers(places)
    if len(gone) < len(found):
        return Finding("temporary files", "warning", told, "some could not be removed; remove them by hand")
    return Finding("temporary files", "ok", f"removed {told}")


def check_file(file: Path, spark: bool) -> Iterator[Finding]:
    """Whether data files can be read, and whether Spark will take their timestamps."""
    name = f"file {file}"
    if not file.exists():
        yield Finding(name, "failed", "does not exist", "check the path")
        return
    if (lake := _lake_finding(file, name)) is not None:
        yield lake
        return
    parts = sorted(file.rglob("*")) if file.is_dir() else [file]
    if told := _database_finding(file, name):
        yield told
        return
    parquet = [part for part in parts if part.suffix in PARQUET_ENDINGS and not part.name.startswith((".", "_"))]
    if not parquet and (told := _csv_finding(file, name) or _other_finding(file, name)):
        yield told
        return
    if not parquet:
        readable = all(os.access(part, os.R_OK) for part in parts)
        yield Finding(name, "ok" if readable else "failed", "readable" if readable else "cannot be read")
        return
    columns: set[str] = set()
    for part in parquet:
        try:
            columns.update(_nanosecond_columns(part))
        except Exception as error:  # noqa: BLE001 a torn file fails in many ways; its text may quote values
            yield Finding(
                name, "failed", f"{part.name} is not a valid Parquet file ({type(error).__name__})", "rewrite it"
            )
            return
    if columns:
        shown = ", ".join(map(repr, sorted(columns)))
        remedy = "Spark refuses such files: write the timestamps in microseconds"
        yield Finding(name, "failed" if spark else "warning", f"nanosecond timestamps in {shown}", remedy)
    else:
        yield Finding(name, "ok", f"{len(parquet)} Parquet file(s)")


def _lake_finding(file: Path, name: str) -> Finding | None:
    """What a table of a table format is; None for plain files."""
    from privpipe.cli.file_kinds import described_lake

    told = described_lake(str(file))
    return None if told is None else Finding(name, *told)


def _csv_finding(file: Path, name: str) -> Finding | None:
    """What a CSV file is, and the `source:` that reads it; None for what is not CSV."""
    from privpipe.cli.file_kinds import described_csv, is_csv

    try:
        if not is_csv(str(file)):
            return None
        found, source = described_csv(str(file))
    except PrivpipeError as error:
        return Finding(
            name, "failed", f"cannot be read as CSV: {error}", "correct the file, or declare how it is written"
        )
    return Finding(name, "ok", found, source)


def _database_finding(file: Path, name: str) -> Finding | None:
    """What tables a database has, and the `source:` that reads one; None for what is not a database."""
    from privpipe.cli.file_kinds import described_database

    try:
        told = described_database(str(file))
    except PrivpipeError as error:
        return Finding(name, "failed", f"cannot be read as a database: {error}", "close its writer, or give a copy")
    return None if told is None else Finding(name, "ok", *told)


def _other_finding(file: Path, name: str) -> Finding | None:
    """What another format is, and the `source:` that reads it; None for a folder or what has no format."""
    from privpipe.cli.file_kinds import described_other

    if not file.is_file():
        return None
    try:
        told = described_other(str(file))
    except UsageError as error:
        return Finding(name, "warning", "readable, but not usable as a source", str(error))
    except PrivpipeError as error:
        return Finding(name, "failed", "cannot be read", str(error))
    return Finding(name, "ok", *told)


def _nanosecond_columns(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema: Any = pq.read_schema(file)
    return [field.name for field in schema if pa.types.is_timestamp(field.type) and field.type.unit == "ns"]


def _installed(engine: str) -> bool:
    package = EXTRAS.get(engine)
    return package is None or importlib.util.find_spec(package) is not None


MARKS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


def doctor(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="Data files to check.", show_default=False)
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option("--engine", metavar="E", help="An engine that must work; may be repeated.", show_default=False),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--target", metavar="DIR", help="A folder that must be writable.", show_default=False),
    ] = None,
    temp: Annotated[
        list[Path] | None,
        typer.Option(
            "--temp", metavar="DIR", help="A `temp_directory` of policies to check as well.", show_default=False
        ),
    ] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove what killed runs left in temporary folders.")] = False,
    json: JsonOption = False,
) -> None:
    """Check what this machine can run.

    Looks at Python, packages, Java, engines, write access, data files, and at what killed runs left behind. Without
    --engine only the embedded engine must work, and the others are reported. Exit code 4 when something that must work
    does not.
    """
    findings = examine(files=files or [], engines=engine or [], target=target, temp=temp or [], clean=clean)
    passed = all(finding.state != "failed" for finding in findings)
    if json:
        print_json({"passed": passed, "checks": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            put(_line(finding))
    if not passed:
        say("FAILED: see above for what to do.")
        raise typer.Exit(EngineError.exit_code)


def _line(finding: Finding) -> str:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{MARKS[finding.state]} {finding.name}: {finding.found}{remedy}"
