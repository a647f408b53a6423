"""What a run needs later, made on a thread of its own while one core would wait: counts of the original, the page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from privpipe.errors import PrivpipeError
from privpipe.reporting.officer.page import make_ready
from privpipe.running.losing import count_original_labels
from privpipe.running.report_figures import count_original_classes
from privpipe.running.run_context import RunContext
from privpipe.running.staging import Staged

__all__ = ["counted_ahead"]

log = logging.getLogger("privpipe.release")


@contextmanager
def counted_ahead(context: RunContext, staged: Staged, *, reported: bool) -> Iterator[None]:
    """Count labels and classes of the original meanwhile, where the engine has room beside.

    The engine remembers them: who asks for one that is being made waits for it. Figures are those of before.

    Parameters
    ----------
    context : RunContext
    staged : Staged
    reported : bool
        Whether a report will show the classes of the original.
    """
    if not context.engine.has_room_beside(staged.original):
        yield
        return

    def count() -> None:
        try:
            count_original_labels(context, staged)
            if reported:
                count_original_classes(context, staged)
                make_ready()
        except PrivpipeError as error:  # whoever needs the count makes it again, and says what is wrong
            log.debug("counts ahead of their time failed: %s", type(error).__name__)

    with ThreadPoolExecutor(1, thread_name_prefix="privpipe-ahead") as pool:
        counting = pool.submit(count)
        yield
    counting.result()
