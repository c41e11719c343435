"""A run whose cases come one by one, as in a session of tests: judged at once, stored at the end.

Limits, cache, ledger and budget are those of one run, however many callers give it cases. The cases
are written as transcripts at the end, and the run is planned over them: its rows are those that the
callers saw, and nothing is judged again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from assizes.flows.outcome import RunOutcome, run_outcome
from assizes.flows.shards import ShardFailures
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import AssizesError, ConfigurationError, Halted, OverBudget
from assizes.judge.formats import FORMATS, native_line
from assizes.judge.verdicts.case_rows import Findings, RowKey
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.reader import RawRecord, TranscriptReader
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.judge_shard import check_models_answered, commit_findings, judge_case
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.summarise import BaselineResult, summarise_run

CASES: Final = "cases.jsonl"
"""The file of the cases in the folder of a live run."""

_KEPT_SETTINGS: Final = ("agent", "agent_version", "writes", "redact", "databases", "max_turns")
"""Settings of [transcripts] that hold for any case; the others say which cases a file gives."""


def live_config(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration of a live run whose cases are written into a folder."""
    kept = {name: getattr(config.transcripts, name) for name in _KEPT_SETTINGS}
    transcripts = TranscriptsConfig(uri=folder.as_posix(), format="native", **kept)
    comparison = config.comparison.model_copy(update={"baseline": None})
    return config.model_copy(update={"transcripts": transcripts, "comparison": comparison})


@dataclass(frozen=True, slots=True)
class _HeardCase:
    written: Case  # as it was given, with its id in this run
    findings: Findings


class LiveRun:
    """A run that judges each case when it is given; `context` has a configuration of `live_config`."""

    def __init__(self, context: RunContext, run_id: str) -> None:
        self._context, self._run_id = context, run_id
        self._hearings: dict[tuple[str, int], tuple[str, asyncio.Task[_HeardCase]]] = {}
        self._stop: AssizesError | None = None  # after it no case is judged

    async def judge(self, case: Case) -> dict[str, Any]:
        """Judge a case; returns its verdict and headline scores as plain values.

        The same case is judged once. Another case of the same id gets an id of its own.

        Raises:
            OverBudget: the budget is spent, by this case or one before.
            AssizesError: the case cannot be judged, or not now.
        """
        if self._stop is not None:
            raise type(self._stop)(str(self._stop))
        content = case.content_hash()
        key = self._key(case, content)
        if key not in self._hearings:
            named = case.model_copy(update={"case_id": key[0], "repetition": key[1]})
            self._hearings[key] = (content, asyncio.create_task(self._hear(named)))
        try:
            heard_case = await asyncio.shield(self._hearings[key][1])
        except (OverBudget, Halted) as error:
            self._stop = error
            raise
        return _plain(heard_case.findings)

    def _key(self, case: Case, content: str) -> tuple[str, int]:
        """The id and repetition under which this case is, or can be, in the run."""
        names = (case.case_id if n == 1 else f"{case.case_id}@{n}" for n in count(1))
        keys = ((name, case.repetition) for name in names)
        return next(
            key for key in keys if key not in self._hearings or self._hearings[key][0] == content
        )

    async def _hear(self, case: Case) -> _HeardCase:
        context = self._context
        reader = TranscriptReader(context.config.transcripts, context.spool)
        line = native_line(case)
        read = reader.case(RawRecord(0, None, line.rstrip(b"\n")), FORMATS["native"])
        if not isinstance(read, Case):
            raise ConfigurationError(f"case {case.case_id!r} cannot be judged: {read}")
        prepared = context.preprocessor.prepared_case(read)
        key = RowKey(self._run_id, context.config.transcripts.uri, 0)
        result = await judge_case(context, key, prepared)
        check_models_answered([result], context, self._run_id)
        return _HeardCase(case, result)

    async def commit(self) -> RunOutcome | None:
        """Store the run with all cases that were judged; `None` where there is none.

        Raises:
            AssizesError: the cases or rows cannot be written.
        """
        context = self._context
        tasks = [task for _, task in self._hearings.values()]
        await asyncio.gather(*tasks, return_exceptions=True)
        judged = [task.result() for task in tasks if task.exception() is None]
        if not judged:
            return None
        await asyncio.to_thread(self._write, [each.written for each in judged])
        planned = await plan_run.fn(context, RunRequest(run_id=self._run_id))
        by_key = {(each.written.case_id, each.written.repetition): each.findings for each in judged}
        async with lock_unfinished_run(context, planned):
            for shard in planned.intake.shards:
                await self._commit_shard(shard, by_key)
            run, summary = await summarise_run.fn(
                context, planned, has_lost_shards=self._stop is not None
            )
        failures = ShardFailures(stop=self._stop)
        return run_outcome(run.record, summary, BaselineResult(), failures, {}, "the same tests")

    async def _commit_shard(self, shard: Shard, by_key: Mapping[tuple[str, int], Findings]) -> None:
        context = self._context
        arguments = (shard, context.config.transcripts, context.spool, context.preprocessor)
        records = await asyncio.to_thread(lambda: list(read_shard(*arguments)))
        outcomes = [
            _placed(by_key[record.case.case_id, record.case.repetition], shard.uri, record.position)
            for record in records
            if record.case is not None
        ]
        await commit_findings(context, self._run_id, shard, (records, outcomes))

    def _write(self, cases: list[Case]) -> None:
        folder = Path(self._context.config.transcripts.uri)
        ordered = sorted(cases, key=lambda case: (case.case_id, case.repetition))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / CASES).write_bytes(b"".join(map(native_line, ordered)))
        except OSError as error:
            raise ConfigurationError(
                f"{str(folder)!r} cannot be written ({error.strerror}); the cases of the run are "
                "kept there"
            ) from None


def _placed(findings: Findings, uri: str, position: int) -> Findings:
    """The findings with the place of the case in its file, which was written later."""
    cases = [{**row, "transcript_uri": uri, "position": position} for row in findings.rows["cases"]]
    return Findings(verdict=findings.verdict, rows={**findings.rows, "cases": cases})


def _plain(findings: Findings) -> dict[str, Any]:
    (row,) = findings.rows["cases"]
    columns = ("judge", "metric", "value", "passed", "status", "reason")
    names = ("case_id", "repetition", "status", "passed", "overall_score", "summary", "error")
    return {
        **{name: row[name] for name in names},
        "scores": [
            {name: score[name] for name in columns}
            for score in findings.rows["scores"]
            if not score["part"]
        ],
    }
