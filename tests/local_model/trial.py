"""One trial: a run of `assizes` by a real model, its rows beside what the server says of the same calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import KEYS
from tests.local_model import cases
from tests.local_model.tap import Call, Tap
from tests.outward import PYTHONPATH

PATIENCE_S = 1500.0
CAP = 200
TIMEOUT_S, DEADLINE_S = 240.0, 600.0
SLACK_S = 3.0
"""Seconds that an ask may take beyond its deadline: this machine has other work too."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """What is run: the cases, the settings, and by which way litellm is called."""

    name: str
    cases: Sequence[Case]
    judges: Sequence[str]
    judge: Mapping[str, Any] = field(default_factory=dict)  # more of the table [judge]
    limits: Mapping[str, Any] = field(default_factory=dict)
    way: str = "direct"

    def tables(self) -> dict[str, Any]:
        """The tables of its configuration."""
        options = {"diagnosis": {"cases": "all"}} if "diagnosis" in self.judges else {}
        judge = {"judges": list(self.judges), "max_output_tokens": CAP, "options": options}
        limits = {"timeout_s": TIMEOUT_S, "deadline_s": DEADLINE_S}
        return {"judge": {**judge, **self.judge}, "limits": {**limits, **self.limits}}


@dataclass
class Outcome:
    """What became of a trial."""

    trial: str
    code: int
    err: str
    seconds: float
    asks: list[Row]
    scores: list[Row]
    calls: list[Call]

    @property
    def usable(self) -> int:
        """Asks that were answered by a reply that fits."""
        return sum(row["error"] is None for row in self.asks)

    def codes(self) -> dict[str, int]:
        """The asks without a usable reply, by the code of the reason."""
        found = pl.Series([str(row["error"]).split(":")[0] for row in self.asks if row["error"]])
        return dict(sorted(found.value_counts().iter_rows())) if len(found) else {}


def prepared(trial: Trial, folder: Path, model: str, api_base: str) -> None:
    """Write the files of a trial into a new folder."""
    cases.write(folder, list(trial.cases))
    cases.configure(folder, model, api_base, trial.tables())


def started(folder: Path, api_url: str, *args: str, way: str = "direct") -> subprocess.Popen[str]:
    """`assizes ARGS` in the folder of a trial, as a process."""
    inherited = {name: text for name, text in os.environ.items() if name not in KEYS}
    own = {
        "PYTHONPATH": PYTHONPATH,
        "OPENAI_API_KEY": "none",
        "ASSIZES_LITELLM_CALLS": way,
        "PREFECT_API_URL": api_url,
        "COLUMNS": "160",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "assizes.deployments.cli", *args],
        cwd=folder,
        env={**inherited, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(
    trial: Trial, folder: Path, process: subprocess.Popen[str], tap: Tap, run_id: str = "r"
) -> Outcome:
    """Wait for a run, and read what it stored."""
    begun = time.monotonic()
    _, err = process.communicate(timeout=PATIENCE_S)
    seconds = time.monotonic() - begun
    if not (folder / "rows.duckdb").exists():  # the run was refused: there is nothing else to say
        raise SystemExit(f"{trial.name}: exit code {process.returncode}: {err[-2000:]}")
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/rows.duckdb")) as store:
        asks, scores = (store.table(run_id, name).to_dicts() for name in ("asks", "scores"))
    return Outcome(trial.name, process.returncode, err, seconds, asks, scores, tap.taken())


def run(trial: Trial, folder: Path, model: str, tap: Tap, api_url: str) -> Outcome:
    """Run a trial from its beginning to its end."""
    prepared(trial, folder, model, tap.api_base)
    process = started(folder, api_url, "run", "--run-id", "r", way=trial.way)
    return outcome(trial, folder, process, tap)


def faults(trial: Trial, done: Outcome, codes: Sequence[int] = (0, 1, 4)) -> Iterator[str]:
    """Everything that is not as it must be with any model, however bad the model is."""
    if done.code not in codes:
        yield f"exit code {done.code}: {done.err[-300:]}"
    if "Traceback" in done.err:
        yield f"a traceback on stderr: {done.err[-300:]}"
    yield from _times(trial, done)
    yield from _counts(done)
    yield from _tokens(done)
    yield from _scores(trial, done)


def _times(trial: Trial, done: Outcome) -> Iterator[str]:
    limits = trial.tables()["limits"]
    for row in done.asks:
        if row["latency_ms"] > (limits["deadline_s"] + SLACK_S) * 1000:
            yield f"{row['judge']}: {row['latency_ms'] / 1000:.0f} s, beyond the deadline"
        for call in calls_of(row):
            if call["latency_ms"] > (limits["timeout_s"] + SLACK_S) * 1000:
                yield f"{row['judge']}: a call of {call['latency_ms'] / 1000:.0f} s, beyond the timeout"


def _counts(done: Outcome) -> Iterator[str]:
    attempts = sum(row["attempts"] for row in done.asks)
    if attempts != len(done.calls):
        yield f"{attempts} calls in table asks, {len(done.calls)} at the server"


def _tokens(done: Outcome) -> Iterator[str]:
    """Every answer that came is in a row with the tokens that the server counted."""
    ours = sorted(
        (call["input_tokens"], call["output_tokens"])
        for row in done.asks
        for call in calls_of(row)
        if call["input_tokens"]
    )
    theirs = sorted(
        (call.prompt_tokens, call.completion_tokens)
        for call in done.calls
        if call.status == 200 and call.delivered
    )
    if ours != theirs and len(ours) == len(theirs):
        wrong = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
        yield f"tokens (ours, the server's) differ: {wrong[:3]}"
    # What comes after a timeout is delivered to nobody, though the connection may still look open.
    elif len(ours) != len(theirs) and not any(_is_late(row) for row in done.asks):
        yield f"{len(ours)} metered calls in table asks, {len(theirs)} answers of the server"
    total = sum(row["input_tokens"] or 0 for row in done.asks)
    if total != sum(pair[0] for pair in ours):
        yield f"{total} prompt tokens in table asks, {sum(pair[0] for pair in ours)} over its calls"


def _is_late(row: Row) -> bool:
    return any(call["code"] == "timeout" for call in calls_of(row))


def _scores(trial: Trial, done: Outcome) -> Iterator[str]:
    """Every judge says something about every case, and a judge that got no answer scored nothing."""
    headlines = [row for row in done.scores if row["part"] == ""]
    for case in trial.cases:
        for judge in trial.judges:
            own = [r for r in headlines if (r["case_id"], r["judge"]) == (case.case_id, judge)]
            asked = [r for r in done.asks if (r["case_id"], r["judge"]) == (case.case_id, judge)]
            if not own:
                yield f"{judge} left no score for {case.case_id}"
            statuses = {row["status"] for row in own}
            if not statuses <= {"scored", "failed", "skipped"}:
                yield f"{judge}: {statuses}"
            if asked and all(row["error"] for row in asked) and statuses == {"scored"}:
                yield f"{judge} scored {case.case_id} although no reply was usable"
            if any(row["status"] != "scored" and not row["reason"] for row in own):
                yield f"{judge}: a failed or skipped score of {case.case_id} without a reason"


def calls_of(row: Row) -> list[dict[str, Any]]:
    """The calls of an ask, in order."""
    if row["trail"]:
        return list(json.loads(row["trail"]))
    if not row["attempts"]:
        return []
    names = ("latency_ms", "input_tokens", "output_tokens", "cost_usd")
    return [{"code": None, **{name: row[name] for name in names}}]
