"""What the extras bring can be imported, and a table is released on each engine; `make test-lowest` runs it too."""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import privpipe as pp
from privpipe.errors import Refused
from privpipe.policy import Policy
from tests.packages.asked import of_extra
from tests.packages.test_extras import EXTRAS, MODULES

PARTS = {
    "dask": ["dask.dataframe", "distributed"],
    "adbc-driver-postgresql": ["adbc_driver_postgresql.dbapi"],
    "pyiceberg": ["pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"],
    "scikit-learn": ["sklearn.tree", "sklearn.covariance"],
    "googleapis-common-protos": ["google.rpc.status_pb2"],
    "grpcio": ["grpc"],
    "grpcio-status": ["grpc_status"],
}
"""What is imported instead of the package itself."""


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_brings_can_be_imported(extra: str) -> None:
    for each in of_extra(extra):
        try:
            found = importlib.metadata.version(each.name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{each.name} is not installed")
        assert Requirement(str(each)).specifier.contains(found, prereleases=True), each
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what other packages deprecate in one another
            for module in PARTS.get(each.name, [MODULES.get(each.name, each.name.replace("-", "_"))]):
                importlib.import_module(module)


@pytest.mark.parametrize(
    "name", ["embedded", pytest.param("dask", marks=pytest.mark.dask), pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_table_is_released(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue({"embedded": "embedded", "dask": "dask_engine", "spark": "spark_engine"}[name])
    rows = [f"p{n},{20 + n % 40},{'fm'[n % 2]},{n % 3}" for n in range(200)]
    (tmp_path / "visits.csv").write_text("\n".join(["name,age,sex,illness", *rows]) + "\n", encoding="utf-8")
    document = {
        "source": {"path": "visits.csv"},
        "engine": name,
        "columns": {
            "name": {"role": "identifier"},
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": {"intervals": {"widths": [10, 40]}}},
            "sex": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"search": "optimal"}}],
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "sink": {"path": "published"},
    }
    policy = Policy.from_dict(document, base_dir=tmp_path)
    pp.release(policy)
    released = tmp_path / "published"
    assert pp.k_anonymity(released, ["age", "sex"]) >= 5
    strict = Policy.from_dict({**document, "transform": [], "sink": {"path": "other"}}, base_dir=tmp_path)
    strict = strict.replaced(guarantees=(pp.models.KAnonymity(k=50),))
    with pytest.raises(Refused):
        pp.release(strict)
    assert not (tmp_path / "other").exists()
