"""`doctor` finds what would fail later, and says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.cli import doctor
from tests.packages.asked import project


def found(run: Any, *arguments: Any) -> dict[str, Any]:
    """The findings of `doctor --json` by name."""
    document = json.loads(run("doctor", *arguments, "--json").stdout)
    return {check["name"]: check for check in document["checks"]}


@pytest.fixture
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines open elsewhere; here they are taken on trust."""
    monkeypatch.setattr(
        doctor, "check_engine", lambda name, required: doctor.Finding(f"engine {name}", "ok", "on trust")
    )


@pytest.mark.usefixtures("no_engines")
def test_a_sound_machine_passes(run: Any) -> None:
    done = run("doctor")
    assert done.exit_code == 0
    assert "ok      python: 3." in done.stdout
    checks = found(run)
    assert checks["packages"]["state"] == "ok"
    assert "numpy" in checks["packages"]["found"]


def test_the_embedded_engine_opens(run: Any) -> None:
    check = found(run)["engine embedded"]
    assert check["state"] == "ok", check
    assert "duckdb" in check["found"].lower()


@pytest.mark.usefixtures("no_engines")
@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("numpy", "1.26.4", "numpy 1.26.4 is installed, but >=2.0 is needed"),
        ("duckdb", "2.0.0", "duckdb 2.0.0 is installed, but "),
    ],
)
def test_a_package_of_a_version_that_does_not_fit_is_named(
    run: Any, name: str, version: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = metadata.version
    monkeypatch.setattr(metadata, "version", lambda each: version if each == name else true(each))
    monkeypatch.setattr(metadata, "requires", lambda _: project()["dependencies"])
    done = run("doctor")
    assert done.exit_code == 4
    assert told in done.stdout
    assert "pip install --upgrade privpipe" in done.stdout


def test_a_package_that_cannot_be_imported_is_named_and_no_crash() -> None:
    """As pyarrow of today with numpy 1, which it does not import with."""
    broken = (
        "import sys; sys.modules['pyarrow'] = None; from privpipe.cli import main; sys.argv[1:] = ['doctor']; main()"
    )
    done = subprocess.run([sys.executable, "-c", broken], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 4, done.stderr
    assert "FAILED  engine embedded: pyarrow cannot be imported" in done.stdout
    assert "packages: " in done.stdout
    assert "crashed" not in done.stderr


@pytest.mark.usefixtures("no_engines")
def test_a_solver_that_is_missing_or_broken_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check = found(run)["integer programs"]
    assert check["state"] == "ok"
    assert check["found"].startswith("highs in scipy ")
    monkeypatch.setattr("scipy.optimize.milp", lambda *_, **__: 1 / 0)
    done = run("doctor")
    assert done.exit_code == 4
    assert (
        f"integer programs: scipy {metadata.version('scipy')}, which integer programs need, broke down" in done.stdout
    )
    monkeypatch.setitem(sys.modules, "pulp", None)
    check = found(run)["integer programs"]
    assert check["state"] == "failed"
    assert check["found"].startswith("pulp ")
    assert "pulp scipy" in check["remedy"]


@pytest.mark.usefixtures("no_engines")
def test_nanosecond_timestamps_are_reported_and_stop_spark(run: Any, tmp_path: Path) -> None:
    stamps = pa.table({"seen": pa.array([1], pa.timestamp("ns")), "x": [1]})
    pq.write_table(stamps, tmp_path / "nano.parquet", version="2.6")
    pq.write_table(pa.table({"seen": pa.array([1], pa.timestamp("us"))}), tmp_path / "micro.parquet")
    check = found(run, tmp_path / "nano.parquet")[f"file {tmp_path / 'nano.parquet'}"]
    assert check["state"] == "warning"
    assert "'seen'" in check["found"]
    assert found(run, tmp_path / "micro.parquet")[f"file {tmp_path / 'micro.parquet'}"]["state"] == "ok"
    done = run("doctor", tmp_path, "--engine", "spark")
    assert done.exit_code == 4
    assert "write the timestamps in microseconds" in done.stdout


@pytest.mark.usefixtures("no_engines")
def test_files_that_are_missing_or_torn_fail(run: Any, tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    for name in ("torn.parquet", "none.parquet"):
        assert run("doctor", tmp_path / name).exit_code == 4
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert run("doctor", tmp_path / "a.csv").exit_code == 0


@pytest.mark.usefixtures("no_engines")
def test_a_target_that_cannot_be_written_fails(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("doctor", "--target", tmp_path / "new" / "folder").exit_code == 0
    assert not (tmp_path / "new").exists()

    def refuse(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    done = run("doctor", "--target", tmp_path)
    assert done.exit_code == 4
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize(("version", "state"), [(None, "failed"), (11, "failed"), (17, "ok"), (21, "ok")])
def test_spark_needs_a_new_enough_java(monkeypatch: pytest.MonkeyPatch, version: int | None, state: str) -> None:
    monkeypatch.setattr(doctor, "java_version", lambda: version)
    assert doctor.check_java(required=True).state == state


def test_the_version_of_java_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.java_version() is None
    for text, version in (("17.0.9", 17), ("1.8.0_392", 8), ("21", 21)):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{text}\" 2023-10-17' >&2\n")
        java.chmod(0o755)
        assert doctor.java_version() == version


def test_the_python_of_spark_workers_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor.check_spark_python(required=True).state == "ok"
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    assert doctor.check_spark_python(required=True).state == "failed"


def test_an_engine_that_does_not_open_fails_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import privpipe.engines

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("canary-4711")

    monkeypatch.setattr(privpipe.engines, "open_engine", broken)
    finding = doctor.check_engine("embedded", required=True)
    assert finding.state == "failed"
    assert "RuntimeError" in finding.found
    assert "canary" not in str(finding)


def test_an_unknown_engine_is_a_usage_error(run: Any) -> None:
    done = run("doctor", "--engine", "sprk")
    assert done.exit_code == 2
    assert "did you mean 'spark'?" in done.stderr
