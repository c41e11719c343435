"""Put a sample run into a store as a flow would have."""

from __future__ import annotations

from dataclasses import replace

from assizes.judge.rows import frame
from assizes.judge.summary.run_summary import run_metrics
from assizes.tasks.store import Store
from tests.tasks.reports.sample import Run


def put(store: Store, run: Run) -> str:
    """Begin, commit and finish; the run's id."""
    run_id = run.record.run_id
    numbers = [
        {"run_id": run_id, "name": name, "value": value}
        for name, value in run_metrics(run.summary).items()
    ]
    store.begin(replace(run.record, status="running", finished_at=None, summary=None))
    store.commit_shard(run_id, "s0", run.frames, run.record.counts)
    store.finish(run.record, frame("run_metrics", numbers))
    return run_id
