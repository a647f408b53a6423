"""How `make test` shares its tests among the workers of pytest-xdist."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

__all__ = ["FilesAndSpark"]

SPARK = "spark"
SHARE = 0.1
"""When this share of the other tests is left, a worker takes those on Spark, which last about as long."""


class FilesAndSpark(LoadScopeScheduling):
    """One worker runs all tests of a file, whose fixtures and kernels it has at hand; and one runs all on Spark.

    A second Java machine costs 20 CPU seconds: it starts, and compiles what the first has compiled. Tests on Spark
    come late, so that few others run in a process that has a session.
    """

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(units[scope].values()):  # the base class goes through all units of a node after each test
            del units[scope]

    def remove_node(self, node: Any) -> str | None:
        """Where a worker crashed, others take what it had left but for the test that was running, which is named."""
        units = self.assigned_work.pop(node)
        left = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
        if not left:
            return None
        unit, crashed = left[0]
        unit[crashed] = True  # the base class would have it crash one worker after another
        self.workqueue.update((scope, unit) for scope, unit in units.items() if not all(unit.values()))
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _assign_work_unit(self, node: Any) -> None:
        if SPARK in self.workqueue:
            others = sum(len(unit) for scope, unit in self.workqueue.items() if scope != SPARK)
            self.workqueue.move_to_end(SPARK, last=others > SHARE * len(self.collection or ()))
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if SPARK in nodeid.lower() else nodeid.partition("::")[0]
