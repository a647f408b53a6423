"""Fixtures of all tests: the engines, the shared data, a quiet and private environment."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from privpipe.compiled import load
from privpipe.engines import Engine, open_engine
from tests.spark_classes import java_options

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"

# How long an example takes says nothing of what must hold. A checkout that passed once passes again: new examples are
# the business of `make fuzz`, and what it finds becomes an example of its own.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "privpipe")
ANY_TIME = hypothesis.settings(deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("privpipe", ANY_TIME, derandomize=True, max_examples=12)
hypothesis.settings.register_profile("deep", ANY_TIME, derandomize=True, max_examples=75)
hypothesis.settings.register_profile("fuzz", ANY_TIME)
hypothesis.settings.load_profile(PROFILE)

DEEP_ON_SPARK = (
    *("tests/cli/", "tests/docs/", "tests/judging/", "tests/leaving/", "tests/matrix/", "tests/measures/"),
    *("tests/engines/databases/", "tests/engines/forms/", "tests/engines/lakes/", "tests/engines/spark/"),
    *("tests/engines/base/", "tests/engines/test_reading_faults.py"),
    *("tests/models/", "tests/pipelines/", "tests/plugins/", "tests/relations/", "tests/report/", "tests/running/"),
    *("tests/spark_ml/", "tests/stores/", "tests/tables/", "tests/transforms/"),
    *("tests/conformance/test_planted_stages.py", "tests/conformance/test_severities.py"),
    *("tests/conformance/test_persons.py::test_figures", "tests/conformance/test_persons.py::test_hostile_names"),
    "tests/conformance/test_partitions.py::test_many_sensitive_values",
)
"""Where tests run on Spark in the deep tier alone; the mark `usual` leaves a test in `make test`, which shows Spark by
the contract of engines, by conformance with one example of each entry, and by measures of different kinds."""

PICKS, ROWS = "tests/relations/test_disclosive_picks.py", "tests/relations/test_disclosive_rows.py"
CELLS = "tests/tables/test_aggregation.py"
RARE_ON_SPARK = (
    "tests/leaving/test_same_rows_same_documents.py",
    *(f"{PICKS}::test_{name}" for name in ("a_pair", "nobody", "one_of", "where_all")),
    *(f"{ROWS}::test_{name}" for name in ("a_row", "all_equal", "rows_are", "rows_go")),
    "tests/running/test_suppression_by_every_count.py",
    *(f"{CELLS}::test_{name}" for name in ("contribution", "levels", "relations", "splitting", "the_order")),
    "tests/tables/test_order_statistics.py",
)
"""Where one engine after another repeats a definition that the conformance of entries shows on Spark too: they run on
Spark with `make test-integrations` alone."""

UNTIL = float(os.environ.get("PRIVPIPE_TESTS_UNTIL", "inf"))
"""Seconds since 1970 after which no further test begins, so that a run which is ended then ends with a result."""

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
# Plans of a few rows end before compiled ones would have paid for themselves: `make test` shows the compiled ones.
INTERPRETED = "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN "
# Each process of the tests has a JVM, and some tests start more: a quarter of the memory for each would be all of it.
PLANS = INTERPRETED if PROFILE == "deep" else ""
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-memory 2g {PLANS}pyspark-shell")
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
    load()  # compiled kernels are what is to be checked, not their forms of whole columns


def keep_temporary_files_in_memory() -> None:
    """A release waits for the disk some thirty times (`fsync`), which took a third of the time of its tests."""
    memory, needed = Path("/dev/shm"), 4 << 30
    if "TMPDIR" in os.environ or not memory.is_dir() or shutil.disk_usage(memory).free < needed:
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


keep_temporary_files_in_memory()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is collected stays; to look through it for garbage took a quarter of the time, later a twentieth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that meets Spark has its mark, before tests are chosen by marks; many examples are deep ones."""
    for item in items:
        if PROFILE == "deep" and "hypothesis" in item.keywords:
            item.add_marker(pytest.mark.deep)
        needs_spark = "spark" in item.keywords or "spark" in getattr(getattr(item, "callspec", None), "id", "")
        if needs_spark:
            item.add_marker(pytest.mark.spark)
            deep_here = item.nodeid.startswith(DEEP_ON_SPARK) and "usual" not in item.keywords
            if deep_here or "deep_on_spark" in item.keywords:
                item.add_marker(pytest.mark.deep)
            if item.nodeid.startswith(RARE_ON_SPARK) or "rare_on_spark" in item.keywords:
                item.add_marker(pytest.mark.rare)
    # One session of a worker serves all of its tests, and what runs before it has the cores to itself.
    items.sort(key=lambda item: "spark" in item.keywords)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip what is left of a run whose time is over."""
    if time.time() > UNTIL:
        pytest.skip("the time for this run was over before the test began (PRIVPIPE_TESTS_UNTIL)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Most tests of the deep tier are on Spark, and are shared one by one."""
    if PROFILE == "deep" or config.getvalue("dist") != "load":
        return None
    from tests.distribution import FilesAndSpark

    return FilesAndSpark(config, log)


@pytest.fixture(scope="session", autouse=True)
def manifests_follow_their_schema() -> Iterator[None]:
    """Every run of every test writes manifests that its published schemas take."""
    if importlib.util.find_spec("jsonschema") is None:
        yield
        return
    import jsonschema

    from privpipe.reporting.output_schemas import output_schema
    from privpipe.running import run
    from privpipe.sinks.records import PrivateRecords

    schemas = {name: jsonschema.Draft202012Validator(output_schema(name)) for name in ("manifest", "private_manifest")}
    write, keep = run.write_public, PrivateRecords.keep

    def write_checked(folder: Path, documents: Mapping[str, Mapping[str, Any]], *more: Any) -> None:
        schemas["manifest"].validate(documents["manifest"])
        write(folder, documents, *more)

    def keep_checked(
        self: PrivateRecords, run_id: str, documents: Mapping[str, Mapping[str, Any]], **said: Any
    ) -> Path:
        if "manifest" in documents:
            schemas["private_manifest"].validate(documents["manifest"])
        return keep(self, run_id, documents, **said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "write_public", write_checked)
        patch.setattr(PrivateRecords, "keep", keep_checked)
        yield


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root folder."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference figures and data next to the project; absent in an ordinary clone."""
    if not (SHARED / "reference").is_dir():
        pytest.skip("reference data (../shared) is not next to the project")
    return SHARED


def java_is_missing() -> str:
    """Why Spark cannot run here, or nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and Path(home, "bin", "java").exists())):
        return "no Java 17 on this machine"
    return ""


@pytest.fixture(scope="session")
def embedded() -> Iterator[Engine]:
    """The embedded engine; no table is too small for its database."""
    with open_engine("embedded") as engine:
        engine.session.small_rows = 0
        yield engine


@pytest.fixture(scope="session")
def dask_engine() -> Iterator[Engine]:
    """The Dask engine on threads."""
    if importlib.util.find_spec("dask") is None:
        pytest.skip("dask is not installed")
    with open_engine("dask") as engine:
        yield engine


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    """The Spark engine, local[2], one session for all tests of a worker; no table is too small for it."""
    reason = java_is_missing()
    if reason:
        pytest.skip(f"Spark: {reason}")
    with open_engine("spark", {"master": "local[2]", "shuffle_partitions": 2, "driver_bytes": 0}) as engine:
        yield engine


@pytest.fixture
def connect_port() -> Iterator[None]:
    """The port that every local server of Spark Connect listens on, for one test of all processes at a time."""
    with Path(tempfile.gettempdir(), "privpipe-tests-connect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(params=["embedded", "dask", "spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    name = {"embedded": "embedded", "dask": "dask_engine", "spark": "spark_engine"}[request.param]
    found: Engine = request.getfixturevalue(name)
    return found
