"""Where the dbt package lies that comes with this one."""

from __future__ import annotations

from pathlib import Path

__all__ = ["package"]


def package() -> str:
    """The folder of the dbt package, for ``packages: [{local: ...}]``.

    Examples
    --------
    >>> (Path(package()) / "dbt_project.yml").exists()
    True
    """
    return str(Path(__file__).resolve().parent / "package")
