"""Write the README's catalogue tables: ``python -m privpipe.report README.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from privpipe.report.catalogue_tables import catalogue_tables

BEGIN, END = "<!-- catalogues: begin -->", "<!-- catalogues: end -->"


def with_tables(text: str) -> str:
    """The text with the part between the markers made anew."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n{catalogue_tables()}{END}{tail}"


def main() -> None:
    """Rewrite the file named on the command line, `README.md` by default."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
