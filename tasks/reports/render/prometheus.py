"""Renders the numbers of a run as Prometheus text, for the textfile collector.

All numbers are gauges: each run replaces the numbers of the run before it with the same name and
trigger. No label holds an id of a run, of a case or of a transcript, as every new value of a label
would make a new time series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.rows import COMPLETE
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.runtime.places import replace_file
from assizes.tasks.store import RunRecord, Store

BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds, in seconds, of the buckets of the latency histogram."""

ANSWERED: Final = "answered"
"""Value of the label `class` for the calls of asks that were answered in the end."""


def write_metrics(store: Store, record: RunRecord, folder: str) -> Path:
    """Write the numbers of a run to `assizes-<name>-<trigger>.prom`; readers never see half a file.

    Raises:
        ConfigurationError: the folder cannot be written to.
        Inconclusive: the run has no summary yet.
    """
    text = metrics_text(store, record)
    path = Path(folder, f"assizes-{record.name}-{record.trigger}.prom")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"[report] metrics {folder!r} cannot be written: {error.strerror}; give a folder"
        ) from error
    return path


def metrics_text(store: Store, record: RunRecord) -> str:
    """The numbers of a run as Prometheus text.

    Raises:
        Inconclusive: the run has no summary yet.
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
        """Yield every metric family of the run once."""
        yield from self._summary_families()
        yield from self._ask_families()
        rejects = self._store.scan(self._record.run_id, "rejects")
        reasons = dict(collect_rows(rejects.group_by("reason").len()).sort("reason").iter_rows())
        yield self._labelled("quarantined", "records that could not be read", "reason", reasons)
        yield from self._times()
        yield from self._drift()

    def _summary_families(self) -> Iterator[Metric]:
        summary = self._summary
        states = {
            state: sum(getattr(metric, state) for metric in summary.metrics)
            for state in ("scored", "skipped", "failed")
        }
        yield self._labelled("judgements", "headline scores", "state", states)
        yield self._labelled("records", "what became of them", "state", summary.counts)
        yield self._gauge("coverage_ratio", "scored / due", summary.coverage)
        yield self._gauge("cases_pass_rate_ratio", "cases", _share(summary.cases_pass_rate_pct))
        score = _share(summary.weighted_metrics_score_pct)
        yield self._gauge("weighted_metrics_score_ratio", "weighted mean of the metrics", score)
        yield self._gauge("cost_usd", "of the judge models", summary.total_platform_cost_usd)
        tokens = summary.total_platform_token_usage or {}
        kinds = {kind: used for kind, used in tokens.items() if kind != "total"}
        yield self._labelled("tokens", "of the judge models", "kind", kinds)

    def _ask_families(self) -> Iterator[Metric]:
        asks = self._store.scan(self._record.run_id, "asks")
        code = pl.col("error").str.split(":").list.first().fill_null(ANSWERED)
        calls_by_class = collect_rows(
            asks.group_by(code.alias("class")).agg(
                pl.col("attempts").sum(),
                (pl.col("attempts") - 1).clip(0).sum().alias("retries"),
                pl.col("waited_ms").sum(),
                pl.col("cached").sum(),
            )
        ).sort("class")
        classes = dict(calls_by_class.select("class", "attempts").iter_rows())
        yield self._labelled("attempts", "model calls", "class", classes)
        sums = calls_by_class.select("retries", "waited_ms", "cached").sum().row(0, named=True)
        waited_s = sums["waited_ms"] / 1000
        yield self._gauge("retries", "model calls after an ask's first", sums["retries"])
        yield self._gauge("limiter_wait_seconds", "asks waited, all together", waited_s)
        yield self._gauge("cache_hits", "asks answered by kept replies", sums["cached"])
        yield from self._latency(asks)

    def _latency(self, asks: pl.LazyFrame) -> Iterator[Metric]:
        seconds = pl.col("latency_ms") / 1000
        called = asks.filter(pl.col("attempts") > 0)
        counts = collect_rows(
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
        duration_s = self._duration_s
        yield self._gauge(
            "in_flight", "asks at once, on average", total / duration_s if duration_s else None
        )

    def _times(self) -> Iterator[Metric]:
        record = self._record
        runs = self._store.runs().filter(
            (pl.col("name") == record.name)
            & (pl.col("trigger") == record.trigger)
            & (pl.col("status") == COMPLETE)
        )
        last = runs.select(pl.col("finished_at").max()).item()
        at = last.timestamp() if last else None
        yield self._gauge("last_complete_timestamp_seconds", "end of the last whole run", at)
        duration_s = self._duration_s
        yield self._gauge("duration_seconds", "from begin to end, with interruptions", duration_s)
        passed = float(self._summary.outcome == "passed" and record.status == COMPLETE)
        yield self._gauge("passed", "1: a whole run that met its gates", passed)

    def _drift(self) -> Iterator[Metric]:
        """How far the judge moved on its anchors; nothing where none were judged with the run."""
        attribution = stored_attribution(self._store, self._record, None)
        if attribution is None or attribution.anchors is None:
            return
        help_ = "mean overall score of the golden set, points of 0..100, after minus before"
        yield self._gauge("golden_set_drift_points", help_, attribution.anchors.mean)
        yield self._gauge(
            "golden_set_drifted", "1: more than chance", float(attribution.judge_moved)
        )

    @property
    def _duration_s(self) -> float | None:
        end = self._record.finished_at
        return (end - self._record.started_at).total_seconds() if end else None

    @property
    def _labels(self) -> dict[str, str]:
        return {"name": self._record.name, "trigger": self._record.trigger}

    def _gauge(self, name: str, description: str, value: float | None) -> Metric:
        return self._family(name, description, [] if value is None else [({}, float(value))])

    def _labelled(
        self, name: str, description: str, label: str, values: Mapping[str, int]
    ) -> Metric:
        samples = [({label: value}, float(number)) for value, number in values.items()]
        return self._family(name, description, samples)

    def _family(
        self, name: str, description: str, samples: Iterable[tuple[dict[str, str], float]]
    ) -> Metric:
        family = GaugeMetricFamily(f"assizes_{name}", f"Of the last run: {description}")
        for more, value in samples:
            family.add_sample(family.name, {**self._labels, **more}, value)
        return family


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
