"""``python -m privpipe``."""

from __future__ import annotations

from privpipe.cli import main

if __name__ == "__main__":
    main()
