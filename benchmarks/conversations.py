"""Runs with transcripts on disk, to be opened case by case: two versions of each conversation.

No sentence comes twice in a run (`benchmarks.varied_texts`): what is kept by text helps no request.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.rows import CASES
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import Store
from benchmarks import bulk_rows
from benchmarks.varied_texts import varied_record

SHARD = 200
"""Cases of a shard, as by default."""

CHARS = 12_000
"""Of the turns of a conversation, as JSON and on average."""

_OTHER_SEED = 2
"""Of the words that the second version of a conversation says instead."""


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
    """A conversation; with a `shift`, a third of its turns have other words, arguments or none."""
    turns: list[Turn] = []
    others = _turns(number, _OTHER_SEED) if shift else ()
    for place, turn in enumerate(_turns(number)):
        moved = bool(shift) and place % 3 == number % 3
        other = next((one for one in others[place:] if one.role == turn.role), turn)
        if moved and turn.tool_calls and other.tool_calls:
            call = turn.tool_calls[0].model_copy(
                update={"arguments": other.tool_calls[0].arguments}
            )
            turns.append(turn.model_copy(update={"tool_calls": (call,)}))
        elif moved and turn.role != "tool":
            turns.append(turn.model_copy(update={"text": other.text}))
        elif not moved:
            turns.append(turn)
    transcript = Transcript(turns=tuple(turns), system="You book flights. " * 20)
    return Case(case_id=f"case-{number:08d}", transcript=transcript)


def _turns(number: int, seed: int = 1) -> tuple[Turn, ...]:
    record = varied_record(number, seed, CHARS)
    return Transcript.model_validate(record["transcript"]).turns
