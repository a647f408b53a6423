"""Write the stubs next to the modules of the package, or into another folder of the same shape.

``python -m stubs [FOLDER]``
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stubs.stand_ins import take_their_place


def main(folder: Path) -> None:
    """Write each stub that is not there as it should be; no one reads half of one."""
    take_their_place()
    from stubs.rooms import STUBS

    for room, made in STUBS.items():
        path, text = folder / room / "__init__.pyi", made()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}.{os.getpid()}")
        whole.write_text(text, encoding="utf-8")
        whole.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "privpipe")
