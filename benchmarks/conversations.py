"""Runs with transcripts on disk, to be opened case by case: two versions of each conversation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from assizes.judge.case import Case, ToolCall, ToolResult, Transcript, Turn
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.rows import CASES
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import Store
from benchmarks import bulk_rows

SHARD = 200
"""Cases of a shard, as by default."""

EXCHANGES = 10
"""Of each conversation: a question, a call, its result and an answer."""

_WORDS = ("flight", "seat", "refund", "gate", "card", "fee", "change", "Newark", "bag", "late")


def write(folder: Path, cases: int, shift: int = 0) -> None:
    """Write transcripts to a new folder; with a `shift`, they differ in words and turns."""
    folder.mkdir(parents=True)
    with (folder / "cases.jsonl").open("wb") as file:
        for number in range(cases):
            file.write(native_line(_case(number, shift)))


def fill(store: Store, folder: Path, run_id: str, cases: int, shift: int = 0) -> None:
    """Write the transcripts of a run, plan them as a run does, and store the rows of the run.

    With a `shift`, the conversations differ in some words, arguments and turns.
    """
    write(folder, cases, shift)
    begun = bulk_rows.record(run_id)
    config = RunConfig.model_validate(
        {"name": "bulk", "transcripts": {"uri": str(folder / "*.jsonl")}}
    )
    with Spool.of(config.transcripts) as spool:
        plan = plan_intake(config.transcripts, SHARD, spool)
        stored = replace(begun, config=config.model_dump(mode="json"), plan=plan.as_dict())
        store.begin(stored)
        _commit(store, run_id, plan, config, spool, shift)


def _commit(
    store: Store, run_id: str, plan: Plan, config: RunConfig, spool: Spool, shift: int
) -> None:
    """Store made-up rows of each shard, with the place and the hash of every transcript."""
    for number, shard in enumerate(plan.shards):
        places = [
            {
                "case_id": record.case.case_id,
                "transcript_uri": shard.uri,
                "position": record.position,
                "transcript_hash": record.case.content_hash(),
            }
            for record in read_shard(shard, config.transcripts, spool)
            if record.case is not None
        ]
        scores = bulk_rows.scores(run_id, number * SHARD, len(places), shift)
        found = pl.DataFrame(places, schema_overrides={"position": CASES["position"]})
        rows = bulk_rows.cases(scores).drop("transcript_uri", "position", "transcript_hash")
        frames = {"scores": scores, "cases": rows.join(found, on="case_id").select(list(CASES))}
        store.commit_shard(run_id, f"s{number:05d}", frames, {"judged": len(places)})


def _case(number: int, shift: int) -> Case:
    turns: list[Turn] = []
    for step in range(EXCHANGES):
        text = " ".join(_WORDS[(number + step * word) % len(_WORDS)] for word in range(60))
        moved = bool(shift) and step % 3 == number % 3
        call = ToolCall(
            name="search", id=f"c{step}", arguments={"at": step + moved, "q": text[:80]}
        )
        result = ToolResult(content=text, call_id=f"c{step}", name="search")
        turns.append(Turn(role="user", text=f"{step}: {text}"))
        turns.append(Turn(role="assistant", tool_calls=(call,)))
        if not moved or step % 2:
            turns.append(Turn(role="tool", tool_result=result))
        turns.append(Turn(role="assistant", text=f"{text} {'late ' * 3 * moved}at {step}"))
    transcript = Transcript(turns=tuple(turns), system="You book flights. " * 20)
    return Case(case_id=f"case-{number:08d}", transcript=transcript)
