"""A planned run: its row in the store, and the plan of its input."""

from __future__ import annotations

from assizes.judge.rows import COMPLETE
from assizes.tasks.intake.plan import Plan
from assizes.tasks.store import RunRecord


class PlannedRun:
    """A run as it stands in the store, with the plan of its input; never changed in place.

    A plain class on purpose: Prefect looks for task inputs within dataclasses and containers.
    """

    def __init__(self, record: RunRecord, intake: Plan) -> None:
        self.record = record
        self.intake = intake

    @property
    def run_id(self) -> str:
        """The id that every row of the run carries."""
        return self.record.run_id

    @property
    def is_finished(self) -> bool:
        """Whether every shard of the run was committed and summarised before."""
        return self.record.status == COMPLETE
