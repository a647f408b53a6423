"""The folders that belong to Airflow: what lies in them is executed, listed or served."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from airflow.configuration import conf

__all__ = ["folders_of_airflow"]

SETTINGS = (
    ("core", "dags_folder", "the DAG folder"),
    ("dag_processor", "dag_bundle_storage_path", "the folder of DAG bundles"),
    ("logging", "base_log_folder", "the log folder"),
    ("core", "plugins_folder", "the plugin folder"),
)


def folders_of_airflow(context: Any) -> tuple[tuple[str, str], ...]:
    """Folders to keep out of, each with what it is: of the settings, of local bundles and of the DAG that runs."""
    found = [*_settings(), *_bundles(), *_own(context)]
    return tuple(dict.fromkeys((what, os.path.abspath(folder)) for what, folder in found if folder))


def _settings() -> Iterator[tuple[str, str]]:
    for section, key, what in SETTINGS:
        yield what, conf.get(section, key, fallback="") or ""


def _bundles() -> Iterator[tuple[str, str]]:
    """The folders that the list of bundles names; bundles of other kinds lie in the storage folder."""
    try:
        listed = json.loads(conf.get("dag_processor", "dag_bundle_config_list", fallback="") or "[]")
    except ValueError:
        return
    for bundle in listed:
        path = (bundle.get("kwargs") or {}).get("path")
        if isinstance(path, str) and "://" not in path:
            yield "the DAG folder", path


def _own(context: Any) -> Iterator[tuple[str, str]]:
    """Where the file of this DAG lies, whatever the settings say."""
    dag = context.get("dag")
    file = getattr(dag, "fileloc", None)
    if isinstance(file, str) and file:
        yield "the folder of this DAG", os.path.dirname(os.path.abspath(file))
