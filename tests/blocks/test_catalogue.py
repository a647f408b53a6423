"""Catalogues: one line an entry, imported when first asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from privpipe import models
from privpipe.errors import UsageError


def test_names_and_classes_agree() -> None:
    for name, class_name in zip(models.CATALOGUE, models.CATALOGUE.class_names, strict=True):
        entry = models.CATALOGUE[name]
        assert (entry.__name__, entry.name()) == (class_name, name)
        assert getattr(models, class_name) is entry


def test_an_unknown_entry_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'k_anonymity'"):
        models.CATALOGUE["k_anonimity"]
    assert "k_anonimity" not in models.CATALOGUE
    assert not hasattr(models, "KAnonimity")


def test_a_group_is_the_first_part_of_the_module() -> None:
    assert models.CATALOGUE.module_of("t_closeness") == "attribute.t_closeness"
    assert len(models.CATALOGUE) == len(list(models.CATALOGUE))


def test_the_catalogue_loads_no_heavy_module() -> None:
    """Nor do the models themselves: their kernels load when a block is measured."""
    script = (
        "import sys, privpipe.models as m\n"
        "[m.CATALOGUE[name].examples() for name in m.CATALOGUE]\n"
        "print(sorted({'numba', 'pandas', 'pyarrow', 'pyspark', 'dask', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
