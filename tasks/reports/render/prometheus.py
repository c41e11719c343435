"""Renders the numbers of a run as Prometheus text, for the textfile collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from assizes.tasks.runs.corrected import corrected_numbers
from assizes.tasks.runtime.places import replace_file
from assizes.tasks.store import RunRecord, Store

# All numbers are gauges: a run replaces those of the last run with its name and trigger.
# No label holds an id of a run, case or transcript: each new value would be a new time series.
BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)  # upper bounds
ANSWERED: Final = "answered"  # the label `class` of calls of asks that were answered in the end


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
        # At once: a collector may read at any moment, and half a file would be half the metrics.
        replace_file(path, text.encode(), is_public=True)  # the exporter is another user
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


@dataclass(eq=False)
class _RunNumbers(Collector):
    store: Store
    record: RunRecord
    summary: RunSummary

    def collect(self) -> Iterable[Metric]:
        """Yield every metric family of the run once."""
        yield from self._summary_families()
        yield from self._ask_families()
        yield self._labelled(
            "quarantined", "records that could not be read", "reason", self._reasons()
        )
        yield from self._times()
        yield from self._drift()
        yield from self._corrected_samples()

    def _reasons(self) -> dict[str, int]:
        """How many records were rejected for each reason; of the plan, as not every one has a row."""
        if (reasons := self.record.plan.get("reasons")) is not None:
            return dict(sorted(reasons.items()))
        rejects = self.store.scan(self.record.run_id, "rejects")
        return dict(collect_rows(rejects.group_by("reason").len()).sort("reason").iter_rows())

    def _summary_families(self) -> Iterator[Metric]:
        summary = self.summary
        states = {
            state: sum(getattr(metric, state) for metric in summary.metrics)
            for state in ("scored", "skipped", "failed")
        }
        yield self._labelled("judgements", "headline scores", "state", states)
        yield self._labelled("records", "what became of them", "state", summary.counts)
        yield self._gauge("coverage_ratio", "scored / due", summary.coverage)
        # From percent to ratio, the unit Prometheus asks for; `None` stays `None`, 0 stays 0.
        rate, score = (
            percent and percent / 100
            for percent in (summary.cases_pass_rate_pct, summary.weighted_metrics_score_pct)
        )
        yield self._gauge("cases_pass_rate_ratio", "cases", rate)
        yield self._gauge("weighted_metrics_score_ratio", "weighted mean of the metrics", score)
        yield self._gauge("cost_usd", "of the judge models", summary.total_platform_cost_usd)
        tokens = summary.total_platform_token_usage or {}
        kinds = {kind: used for kind, used in tokens.items() if kind != "total"}
        yield self._labelled("tokens", "of the judge models", "kind", kinds)

    def _ask_families(self) -> Iterator[Metric]:
        asks = self.store.scan(self.record.run_id, "asks")
        # The error of an ask is `code: reason`; reasons are too many for label values.
        code = pl.col("error").str.split(":").list.first().fill_null(ANSWERED)
        calls_by_class = collect_rows(
            asks.group_by(code.alias("class")).agg(
                pl.col("attempts").sum(),
                (pl.col("attempts") - 1).clip(0).sum().alias("retries"),  # 0 attempts: a kept reply
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
        called = asks.filter(pl.col("attempts") > 0)  # a kept reply has the latency of its own call
        counts = collect_rows(
            called.select(
                # Buckets of Prometheus are cumulative, up to `+Inf` with everything.
                *((seconds <= bound).sum().alias(str(bound)) for bound in BUCKETS_S),
                pl.len().alias("+Inf"),
                seconds.sum().alias("sum"),
            )
        ).row(0, named=True)
        total = counts.pop("sum")
        family = HistogramMetricFamily(
            "assizes_ask_latency_seconds",
            "Asks that called a model, with their retries",
            labels=("name", "trigger"),
        )
        family.add_metric((self.record.name, self.record.trigger), list(counts.items()), total)
        yield family
        # Little (1961): the mean number in flight is the sum of latencies over the run's length.
        in_flight = total / self._duration_s if self._duration_s else None
        yield self._gauge("in_flight", "asks at once, on average", in_flight)

    def _times(self) -> Iterator[Metric]:
        record = self.record
        alike = {"name": record.name, "trigger": record.trigger, "status": COMPLETE}
        runs = self.store.run_index().filter(**alike)
        last = runs.select(pl.col("finished_at").max()).item()
        at = last.timestamp() if last else None  # Unix time in seconds, as Prometheus keeps times
        yield self._gauge("last_complete_timestamp_seconds", "end of the last whole run", at)
        took = "from begin to end, with interruptions"
        yield self._gauge("duration_seconds", took, self._duration_s)
        passed = float(self.summary.outcome == "passed" and record.status == COMPLETE)
        yield self._gauge("passed", "1: a whole run that met its gates", passed)

    def _drift(self) -> Iterator[Metric]:
        """How far the judge moved on its anchors; nothing where none were judged with the run."""
        attribution = stored_attribution(self.store, self.record, None)
        if attribution is None or attribution.anchors is None:
            return
        help_ = "mean overall score of the golden set, points of 0..100, after minus before"
        yield self._gauge("golden_set_drift_points", help_, attribution.anchors.mean)
        moved = float(attribution.judge_moved)
        yield self._gauge("golden_set_drifted", "1: more than chance", moved)

    def _corrected_samples(self) -> Iterator[Metric]:
        """The numbers that labels of people correct, 0..1; nothing where there are too few labels."""
        numbers = corrected_numbers(self.store, self.record.run_id)
        known = {n.number.metric: n.number.estimate for n in numbers if n.number.estimate}
        if not known:
            return
        for name, part, help_ in (
            ("corrected_ratio", "value", "by labels of people, of the verdict the pass rate"),
            ("corrected_low_ratio", "low", "lower end of its 95 % interval"),
            ("corrected_high_ratio", "high", "upper end of its 95 % interval"),
            ("corrected_labels", "labels", "labels of people behind it"),
        ):
            values = {metric: getattr(estimate, part) for metric, estimate in known.items()}
            yield self._labelled(name, help_, "metric", values)

    @property
    def _duration_s(self) -> float | None:
        end = self.record.finished_at
        return (end - self.record.started_at).total_seconds() if end else None

    def _gauge(self, name: str, description: str, value: float | None) -> Metric:
        # A number that is unknown has no sample: 0 would be a claim, NaN spreads through queries.
        return self._labelled(name, description, "", {} if value is None else {"": value})

    def _labelled(
        self, name: str, description: str, label: str, values: Mapping[str, float]
    ) -> Metric:
        """A gauge with a value for each value of a label, or with one value if `label` is empty."""
        family = GaugeMetricFamily(f"assizes_{name}", f"Of the last run: {description}")
        labels = {"name": self.record.name, "trigger": self.record.trigger}
        for word, value in values.items():
            own = {label: word} if label else {}
            family.add_sample(family.name, labels | own, float(value))
        return family
