"""The numbers of a run as Prometheus text, for a textfile collector.

They are gauges: each run of a name and a trigger replaces the numbers of the one before. No label
holds an id of a run, of a case or of a transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from assizes.judge.errors import Inconclusive
from assizes.judge.rows import COMPLETE
from assizes.judge.summary.summary import RunSummary
from assizes.judge.verdicts.executions import collected
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.store import RunRecord, Store

BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the histogram of asks that called a model."""

ANSWERED: Final = "answered"
"""The class of an ask's calls where the ask was answered in the end."""

Labels = dict[str, str]


def metrics_text(store: Store, record: RunRecord) -> str:
    """The numbers of one run.

    Raises:
        Inconclusive: it was never summed up.
    """
    if record.summary is None:
        raise Inconclusive(f"run {record.run_id} is {record.status}: it has no numbers yet")
    registry = CollectorRegistry()
    registry.register(_RunNumbers(store, record, RunSummary.model_validate(record.summary)))
    return generate_latest(registry).decode()


class _RunNumbers(Collector):
    def __init__(self, store: Store, record: RunRecord, summary: RunSummary) -> None:
        self._store = store
        self._record = record
        self._summary = summary

    def collect(self) -> Iterable[Metric]:
        """Every family once."""
        yield from self._of_summary()
        yield from self._of_asks()
        yield self._family("quarantined", "records that could not be read", self._rejects())
        yield from self._times()
        yield from self._drift()

    def _of_summary(self) -> Iterator[Metric]:
        summary = self._summary
        states = {
            state: sum(getattr(one, state) for one in summary.metrics)
            for state in ("scored", "skipped", "failed")
        }
        yield self._family("judgements", "headline scores", _by("state", states))
        yield self._family("records", "what became of them", _by("state", summary.counts))
        yield self._one("coverage_ratio", "scored / due", summary.coverage)
        yield self._one("cases_pass_rate_ratio", "cases", _share(summary.cases_pass_rate_pct))
        score = _share(summary.weighted_metrics_score_pct)
        yield self._one("weighted_metrics_score_ratio", "weighted mean of the metrics", score)
        yield self._one("cost_usd", "of the judge models", summary.total_platform_cost_usd)
        tokens = summary.total_platform_token_usage or {}
        kinds = {kind: used for kind, used in tokens.items() if kind != "total"}
        yield self._family("tokens", "of the judge models", _by("kind", kinds))

    def _of_asks(self) -> Iterator[Metric]:
        asks = self._store.scan(self._record.run_id, "asks")
        code = pl.col("error").str.split(":").list.first().fill_null(ANSWERED)
        found = collected(
            asks.group_by(code.alias("class")).agg(
                pl.col("attempts").sum(),
                (pl.col("attempts") - 1).clip(0).sum().alias("retries"),
                pl.col("waited_ms").sum(),
                pl.col("cached").sum(),
            )
        ).sort("class")
        classes = dict(found.select("class", "attempts").iter_rows())
        yield self._family("attempts", "model calls", _by("class", classes))
        sums = found.select("retries", "waited_ms", "cached").sum().row(0, named=True)
        waited_s = sums["waited_ms"] / 1000
        yield self._one("retries", "model calls after an ask's first", sums["retries"])
        yield self._one("limiter_wait_seconds", "asks waited, all together", waited_s)
        yield self._one("cache_hits", "asks answered by kept replies", sums["cached"])
        yield from self._latency(asks)

    def _latency(self, asks: pl.LazyFrame) -> Iterator[Metric]:
        seconds = pl.col("latency_ms") / 1000
        called = asks.filter(pl.col("attempts") > 0)
        counts = collected(
            called.select(
                *((seconds <= bound).sum().alias(str(bound)) for bound in BUCKETS_S),
                pl.len().alias("+Inf"),
                seconds.sum().alias("sum"),
            )
        ).row(0, named=True)
        total = counts.pop("sum")
        family = HistogramMetricFamily(
            "assizes_ask_latency_seconds",
            "Asks that called a model, with their retries",
            labels=list(self._labels),
        )
        family.add_metric(list(self._labels.values()), list(counts.items()), total)
        yield family
        took = self._took_s
        yield self._one("in_flight", "asks at once, on average", total / took if took else None)

    def _rejects(self) -> list[tuple[Labels, float]]:
        rejects = self._store.scan(self._record.run_id, "rejects")
        found = collected(rejects.group_by("reason").len()).sort("reason")
        return _by("reason", dict(found.iter_rows()))

    def _times(self) -> Iterator[Metric]:
        record = self._record
        runs = self._store.runs().filter(
            (pl.col("name") == record.name)
            & (pl.col("trigger") == record.trigger)
            & (pl.col("status") == COMPLETE)
        )
        last = runs.select(pl.col("finished_at").max()).item()
        at = last.timestamp() if last else None
        yield self._one("last_complete_timestamp_seconds", "end of the last whole run", at)
        took = self._took_s
        yield self._one("duration_seconds", "from begin to end, with interruptions", took)
        passed = float(self._summary.outcome == "passed" and record.status == COMPLETE)
        yield self._one("passed", "1: a whole run that met its gates", passed)

    def _drift(self) -> Iterator[Metric]:
        """How the judge moved on its golden set."""
        found = stored_attribution(self._store, self._record, None)
        if found is None or found.anchors is None:
            return
        help_ = "mean overall score of the golden set, points of 0..100, after minus before"
        yield self._one("golden_set_drift_points", help_, found.anchors.mean)
        yield self._one("golden_set_drifted", "1: more than chance", float(found.judge_moved))

    @property
    def _took_s(self) -> float | None:
        ended = self._record.finished_at
        return (ended - self._record.started_at).total_seconds() if ended else None

    @property
    def _labels(self) -> Labels:
        return {"name": self._record.name, "trigger": self._record.trigger}

    def _one(self, name: str, of: str, value: float | None) -> Metric:
        return self._family(name, of, [] if value is None else [({}, float(value))])

    def _family(self, name: str, of: str, samples: Iterable[tuple[Labels, float]]) -> Metric:
        made = GaugeMetricFamily(f"assizes_{name}", f"Of the last run: {of}")
        for more, value in samples:
            made.add_sample(made.name, {**self._labels, **more}, value)
        return made


def _by(label: str, values: dict[str, int]) -> list[tuple[Labels, float]]:
    return [({label: name}, float(value)) for name, value in values.items()]


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
