"""Each extra is used: its packages are imported by privpipe or by what privpipe imports, and errors name it rightly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packages.asked import DEVELOPERS, PROJECT, extras, of_extra, project

PACKAGE = PROJECT / "privpipe"
MODULES = {
    "adbc-driver-manager": "adbc_driver_manager",
    "adbc-driver-postgresql": "adbc_driver_postgresql",
    "great-expectations": "great_expectations",
    "ruamel-yaml": "ruamel",
    "scikit-learn": "sklearn",
    "typing-extensions": "typing_extensions",
    "annotated-types": "annotated_types",
    "apache-airflow": "airflow",
}
"""Where the name that is imported is another one."""
BROUGHT = {
    "adbc-driver-manager": "adbc-driver-postgresql is a driver of it",
    "grpcio": "pyspark: Spark Connect",
    "grpcio-status": "pyspark: Spark Connect",
    "googleapis-common-protos": "pyspark: Spark Connect",
    "zstandard": "pyspark: Spark Connect",
    "s3fs": "fsspec: s3 URLs",
    "gcsfs": "fsspec: Google Cloud Storage",
    "adlfs": "fsspec: Azure",
    "dbt-core": "the dbt package, which dbt runs",
    "dbt-duckdb": "the dbt package: Python models",
    "fastapi": "prefect: its server",
}
"""What no module of privpipe imports, and who needs it."""
APART = ("airflow", "dagster", "dbt", "prefect", "gcs", "azure")
"""Schedulers exclude one another, and no one needs the clients of all stores."""
EXTRAS = [name for name in extras() if name not in (*DEVELOPERS, "all")]
UNNAMED = {
    "sklearn": "a room of its own that no one imports without it",
    "airflow": "a room of its own",
    "dagster": "a room of its own",
    "dbt": "a room of its own",
    "prefect": "a room of its own",
    "gcs": "the names of stores are those of their extras",
    "azure": "the names of stores are those of their extras",
}
"""Extras that no error mentions."""


def imported() -> set[str]:
    """The outermost names of all that privpipe imports, also late and by name."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        found.update(names_in(ast.parse(file.read_text(encoding="utf-8"))))
    return found


def names_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call):  # importlib.import_module("a.b"), or a function of ours that calls it
            yield from (
                each.value.partition(".")[0]
                for each in node.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


@pytest.mark.deep
def test_every_package_of_an_extra_is_imported_or_needed_by_one_that_is() -> None:
    known = imported()
    base = [Requirement(each) for each in project()["dependencies"]]
    wanted = {canonicalize_name(each.name) for name in EXTRAS for each in of_extra(name)}
    wanted |= {canonicalize_name(each.name) for each in base}
    unused = {name for name in wanted if MODULES.get(name, name.replace("-", "_")) not in known}
    assert unused - {"fsspec"} <= set(BROUGHT)
    assert set(BROUGHT) <= wanted


def test_all_holds_every_extra_but_those_of_developers() -> None:
    (every,) = map(Requirement, extras()["all"])
    assert sorted(every.extras) == sorted(set(EXTRAS) - set(APART))


def test_errors_name_extras_that_exist_and_each_extra_is_named() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    named = set(re.findall(r"privpipe\[([a-z0-9]+)\]", text))
    engines = {"spark", "dask"}  # by their names: f"pip install 'privpipe[{name}]'"
    assert named <= set(EXTRAS)
    assert set(EXTRAS) - named - engines - {"s3"} <= set(UNNAMED)


def test_each_extra_has_a_lowest_version_of_each_package() -> None:
    packages = [each for name in EXTRAS for each in of_extra(name)]
    assert packages
    assert [str(each) for each in packages if not any(bound.operator == ">=" for bound in each.specifier)] == []


def test_the_licence_travels_with_the_package() -> None:
    held = project()
    assert held["license"] == "Apache-2.0"
    for name in held["license-files"]:
        assert (PROJECT / name).is_file()
    assert "Version 2.0, January 2004" in (PROJECT / "LICENSE").read_text(encoding="utf-8")
    assert all("example." not in url and "localhost" not in url for url in held["urls"].values())


def test_the_interpreters_of_make_are_those_that_are_declared() -> None:
    declared = {
        found[1] for each in project()["classifiers"] if (found := re.fullmatch(r"Programming .* :: (3\.\d+)", each))
    }
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    tried = re.findall(r"^PYTHONS := (.*)$", makefile, re.MULTILINE)[0].split()
    assert set(tried) == declared
    assert project()["requires-python"] == f">={min(tried)}"
