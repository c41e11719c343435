"""Shows runs in the Prefect UI as artifacts: report, metrics, calibrations, and progress."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx
from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)

from assizes.judge.calibration.disagreements import MetricDisagreements
from assizes.judge.calibration.record import Calibration, Canaries
from assizes.tasks.context.run_context import ProgressReporter, RunContext
from assizes.tasks.reports import formatting
from assizes.tasks.reports.formatting import bullets, code, plain, table
from assizes.tasks.reports.render.markdown import markdown_report

log = logging.getLogger(__name__)

UPDATE_INTERVAL_S: Final = 1.0
"""Seconds between two updates of a progress artifact, at least; the end sends what is left."""

KEY: Final = "assizes-progress"

_MAX_DISAGREEMENTS: Final = 20
"""The most disagreements of a metric that the artifact of a calibration lists."""

SHOW_AFTER_S: Final = 10.0
"""Seconds before the progress of a run appears; a shorter run gets no such artifact."""


@contextmanager
def ignore_server_errors(what: str) -> Iterator[None]:
    """Log an error of the Prefect server, and go on: what it shows is only a view of the work."""
    try:
        yield
    except httpx.HTTPError as error:
        log.warning("%s cannot be shown in Prefect: %s", what, type(error).__name__)


def artifact_key(name: str) -> str:
    """A name as part of an artifact key; Prefect allows lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"


async def publish_artifacts(
    data: Mapping[str, Any],
    links: Mapping[str, str],
    *,
    keys: tuple[str, str] = ("assizes-report", "assizes-metrics"),
) -> None:
    """Create the artifacts of a run from the data of its report.

    `links` are the places of the written files, by suffix; without `html` there is no link. The
    name of the run is appended to both `keys`, that of the Markdown and that of the table.
    """
    report, metrics = keys
    # Keys depend on the name of the run only: the UI then shows a timeline of its runs.
    name = artifact_key(data["run"]["name"])
    where = f"\n\nThe full report: {code(links['html'], 500)}\n" if "html" in links else ""
    verdict = f"{data['verdict']['word']}: {data['run']['run_id']}"
    text = markdown_report(data) + where
    rows = [  # the Prefect UI renders the texts as Markdown
        {
            "metric": plain(metric["metric"]),
            "tier": plain(metric["tier"] or ""),
            "weight": metric["weight"],
            "mean": None if metric["mean"] is None else round(metric["mean"], 2),
            "unit": plain(metric["unit"]),
            "passed": None if metric["pass_rate"] is None else round(metric["pass_rate"], 4),
            "change": None if metric["delta"] is None else round(metric["delta"], 2),
            **{count: metric[count] for count in ("scored", "failed", "skipped")},
            "labels": plain(formatting.labels(metric["labels"]), 1000),
        }
        for metric in data["metrics"]
    ]
    artifacts: list[Coroutine[Any, Any, UUID]] = [
        acreate_markdown_artifact(text, key=f"{report}-{name}", description=verdict),
        acreate_table_artifact(rows, key=f"{metrics}-{name}", description=verdict),
    ]
    if "html" in links:
        link = link_uri(links["html"])
        key = f"{report}-link-{name}"
        artifacts.append(acreate_link_artifact(link, "the full report", key, verdict))
    # The run is judged, paid for and stored without the server.
    with ignore_server_errors("the report"):
        await asyncio.gather(*artifacts)


def link_uri(path: str) -> str:
    """A URI unchanged; the path of a file as a `file://` URI, which browsers open."""
    return path if "://" in path else Path(path).absolute().as_uri()


def calibration_markdown(
    calibrations: Sequence[Calibration],
    shortfalls: Sequence[str],
    canaries: Canaries | None = None,
    disagreements: Sequence[MetricDisagreements] = (),
) -> str:
    """Calibrations as Markdown: why the judge may not be used, the metrics, and the canaries.

    The disagreements that stand furthest apart are listed with the judge's reason.
    """
    blocks = [f"- FALLS SHORT: {plain(reason, 500)}" for reason in shortfalls]
    for calibration in calibrations:
        blocks += _calibration_blocks(calibration)
    blocks += [_disagreement_table(apart) for apart in disagreements if apart.listed]
    if canaries is not None:
        names = ("planted", "judged", "takeovers", "silent", "noticed")
        rows = ([name, str(getattr(canaries, name))] for name in names)
        blocks += ["## Canaries", table(["canaries", "cases"], rows, numbers=1)]
    return "\n\n".join(blocks) + "\n"


def _calibration_blocks(calibration: Calibration) -> Iterator[str]:
    yield f"## {plain(calibration.metric)}: {plain(calibration.citation())}"
    yield (
        f"Judge: {plain(calibration.judge, 500)}. Labels: {plain(calibration.labels)}, "
        f"{calibration.labelled:,} items, {calibration.disputed} disputed, "
        f"{calibration.missing} not judged, {calibration.judge_errors} judge errors."
    )
    agreement, failing = calibration.agreement, calibration.failing
    measures = {
        "accuracy": agreement.accuracy,
        "kappa": agreement.kappa,
        "quadratic kappa": agreement.quadratic_kappa,
        "Krippendorff's alpha": agreement.alpha,
        "F1 of fail": failing and failing.f1,
        "false positive rate of fail": failing and failing.false_positive_rate,
        "false negative rate of fail": failing and failing.false_negative_rate,
        "pass rate, corrected": calibration.corrected_pass_rate,
    }
    rows = ([name, plain(str(value))] for name, value in measures.items() if value is not None)
    yield table(["measure", "value [95 %]"], rows, numbers=1)
    if calibration.ceiling is not None and calibration.ceiling.mean_kappa is not None:
        yield f"People among themselves: mean kappa {calibration.ceiling.mean_kappa:.2f}."
    if calibration.warnings:
        yield bullets(f"Warning: {plain(warning, 500)}" for warning in calibration.warnings)


def _disagreement_table(apart: MetricDisagreements) -> str:
    rows = [
        [
            *(plain(item.case_id), f"{item.people:g}", f"{item.judge:g}"),
            plain(item.reason or "-", 300),
        ]
        for item in apart.listed[:_MAX_DISAGREEMENTS]
    ]
    heading = f"## {plain(apart.metric)}: {apart.total:,} disagreements"
    columns = ("case", "people", "judge", "the judge's reason")
    return f"{heading}\n\n{table(columns, rows)}"


@dataclass
class ProgressArtifact:
    """A progress artifact, created with its first update under a key that stays the same."""

    key: str
    _artifact: UUID | None = field(default=None, init=False)  # `None`: not created yet
    _sent_at: float = field(default=0.0, init=False)  # `time.monotonic`: a clock that cannot jump
    _pending: tuple[float, str] | None = field(default=None, init=False)  # (share, line), unsent

    async def update(self, share: float, line: str) -> None:
        """Show how much is done, 0..1, and a line about it, at most every `UPDATE_INTERVAL_S`."""
        self._pending = (share, line)
        if self._artifact is None or time.monotonic() - self._sent_at >= UPDATE_INTERVAL_S:
            await self.flush()

    async def flush(self) -> None:
        """Send the last update, if it was not sent yet."""
        if self._pending is None:
            return
        share, line = self._pending
        self._sent_at = time.monotonic()
        percent = round(100 * share, 1)
        with ignore_server_errors("the progress"):
            if self._artifact is None:
                self._artifact = await acreate_progress_artifact(percent, self.key, line)
            else:
                await aupdate_progress_artifact(self._artifact, percent, line)
            # Not before: what a server that is away did not receive comes with the next update.
            self._pending = None


@asynccontextmanager
async def show_progress(context: RunContext, after_s: float = SHOW_AFTER_S) -> AsyncIterator[None]:
    """Show how far a run is during the block, after `after_s` seconds and at most once a second."""
    before = context.progress  # still called, and before the artifact
    artifact = ProgressArtifact(f"{KEY}-{artifact_key(context.config.name)}")
    display = _RunProgress(before, artifact)
    context.progress = display.report
    update_task = asyncio.create_task(display.send_updates(after_s))
    try:
        yield
    finally:
        context.progress = before
        update_task.cancel()
        with suppress(asyncio.CancelledError):
            await update_task
        if display.last_sent is not None:
            await display.send_update()
            await artifact.flush()


@dataclass
class _RunProgress:
    """The stage of a run and how many of its cases are done, shown once it has taken a while."""

    before: ProgressReporter  # the reporter that the context came with
    artifact: ProgressArtifact
    began: float = field(default_factory=time.monotonic)  # seconds
    now: tuple[str, int, int] = ("", 0, 0)  # (stage, done, total)
    last_sent: tuple[str, int, int] | None = None  # `None`: the artifact has not appeared

    def report(self, stage: str, done: int, total: int) -> None:
        """Record how far a stage is and pass it on; a `ProgressReporter`."""
        self.before(stage, done, total)
        stage_before, done_before, total_before = self.now
        if total or stage != stage_before:
            self.now = (stage, done, total)
        else:
            # A total of 0: so many more are done.
            self.now = (stage, done_before + done, total_before)

    async def send_updates(self, after_s: float) -> None:
        """Update the artifact when the progress has changed, until cancelled."""
        await asyncio.sleep(after_s)
        while True:
            await self.send_update()
            await asyncio.sleep(UPDATE_INTERVAL_S)

    async def send_update(self) -> None:
        """Update the artifact, if the progress has changed since the last update."""
        stage, done, total = self.now
        if not total or self.now == self.last_sent:  # a stage without a total has no share
            return
        self.last_sent = self.now
        line, remaining = f"{stage}: {done} of {total} cases", total - done
        if done and remaining:  # the time left is estimated at the speed so far
            seconds = (time.monotonic() - self.began) * remaining / done
            line += f", about {seconds / 60:.1f} minutes left"
        await self.artifact.update(done / total, line)
