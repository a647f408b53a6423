"""Workers are spared what Spark would do for each task, and import as before."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from privpipe.engines.spark import workers


def test_finders_of_archives_go_and_their_modules_still_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_first.py", "number = 1")
        file.writestr("zipped_second.py", "number = 2")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("zipped_first").number == 1
    assert isinstance(sys.path_importer_cache[str(archive)], zipimport.zipimporter)
    try:
        workers.settle_modules()
        finders = sys.path_importer_cache.values()
        assert not any(isinstance(finder, zipimport.zipimporter) for finder in finders)
        assert importlib.import_module("zipped_second").number == 2
    finally:
        gc.unfreeze()


def test_objects_are_set_aside_once_for_the_same_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_modules_seen", 0)
    gc.unfreeze()
    try:
        workers.settle_modules()
        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        workers.settle_modules()
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
