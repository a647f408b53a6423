"""Every reader that is fuzzed."""

from __future__ import annotations

from tests.fuzzing.documents import document_readers
from tests.fuzzing.readers import TEXT_READERS, Reader

__all__ = ["READERS"]

READERS: tuple[Reader, ...] = (*TEXT_READERS, *document_readers())
"""Those of files, and those of what a run wrote, which is made when the first of them is tried."""
