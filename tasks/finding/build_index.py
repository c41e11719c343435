"""Builds the search index of a run: first what was judged, then what was said."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.case import Case, ToolCall
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.judge.verdicts.verdict import rationale
from assizes.tasks.finding.search_index import (
    MAX_BYTES,
    NOT_READ,
    READ,
    TEXT_CHARS,
    UNREADABLE,
    CaseText,
    SearchIndex,
    building_index,
)
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import RunRecord, Store, open_store
from assizes.tasks.store.search_files import delete_index, index_path

CHUNK: Final = 2000
"""Conversations that are indexed in one commit."""

ROWS_CHUNK: Final = 10_000
"""Cases whose rows are read at a time: each reading scans the ids of all rows of a run."""

OnProgress = Callable[[int, int], None]
"""Called with the texts that are indexed, and with how many there are: two for each case."""

_PLACE: Final = ("transcript_uri", "position", "transcript_hash")
_LINES: Final = ("case_id", "agent", "agent_version", "root_cause", "summary", "error")
_REASONS: Final = ("reason", "failure_code", "details")


class _Stored(NamedTuple):
    """A run, and those of its cases that the store holds now."""

    record: RunRecord
    keys: pl.DataFrame  # `CASE`, and where the transcript is


def stored_keys(store: Store, run_id: str) -> pl.DataFrame:
    """The cases of a run with the places and the hashes of their transcripts."""
    rows = collect_rows(store.scan(run_id, "cases").select(*CASE, *_PLACE))
    return rows.with_columns(hash=pl.col("transcript_hash").fill_null(""))


def missing_cases(indexed: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The stored cases that an index lacks."""
    return stored.join(indexed, on=[*CASE, "hash"], how="anti", maintain_order="left")


def build_index(
    config: StoreConfig, run_id: str, on_progress: OnProgress = lambda _done, _all: None
) -> bool:
    """Index what the index of a run lacks; False where another process is building it.

    The store is open for moments only, so that a run may write in between. An index that holds a
    case that the store holds no more is deleted and built anew.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the store cannot be read, or the index cannot be written.
    """
    path = index_path(config.uri, run_id)
    for _ in range(2):  # the second time from nothing
        # The file is opened before the store is read: what is forgotten later takes the file away.
        with building_index(path) as index:
            if index is None:
                return False
            stored = _read_stored(config, run_id)
            indexed = index.keys()
            gone = indexed.join(stored.keys, on=[*CASE, "hash"], how="anti")
            if gone.is_empty():
                index.add_cases(
                    missing_cases(indexed, stored.keys).select(*CASE, "hash").iter_rows()
                )
                _index_texts(index, config, stored, on_progress)
                return True
        delete_index(config.uri, run_id)
    return False


def _read_stored(config: StoreConfig, run_id: str) -> _Stored:
    with open_store(config) as store:
        record = store.run(run_id)
        return _Stored(record, stored_keys(store, record.run_id))


def _index_texts(
    index: SearchIndex, config: StoreConfig, stored: _Stored, on_progress: OnProgress
) -> None:
    keys = index.keys().join(stored.keys, on=[*CASE, "hash"], maintain_order="left")
    due = keys.filter(pl.col("judged") == NOT_READ)
    unsaid = keys.filter(pl.col("said") == NOT_READ)
    every = 2 * keys.height
    done = every - due.height - unsaid.height
    on_progress(done, every)
    for chunk in due.iter_slices(ROWS_CHUNK):
        with open_store(config) as store:
            index.add_texts(_judged_texts(store, stored.record.run_id, chunk))
        done += chunk.height
        on_progress(done, every)
    said = _said_texts(stored.record, unsaid)
    while texts := list(islice(said, CHUNK)):
        if index.size() > MAX_BYTES:  # no room: as good as unreadable
            texts = [text._replace(text="", state=UNREADABLE) for text in texts]
        index.add_texts(texts)
        done += len(texts)
        on_progress(done, every)


def _judged_texts(store: Store, run_id: str, keys: pl.DataFrame) -> Iterator[CaseText]:
    """What is stored about some cases: ids, tags, tools, the summary, reasons and codes."""
    ids = keys["case_id"].to_list()
    columns = (*CASE, *_LINES[1:], "tags", "tools", "flags")
    cases = store.rows_of_cases(run_id, "cases", ids, columns)
    scores = store.rows_of_cases(run_id, "scores", ids, (*CASE, *_REASONS))
    reasons: defaultdict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for case_id, repetition, reason, code, details in scores.iter_rows():
        said = (reason, code, rationale(json.loads(details)) if details else None)
        reasons[case_id, repetition].update(dict.fromkeys(text for text in said if text))
    numbers = {(case_id, rep): n for n, case_id, rep in keys.select("n", *CASE).iter_rows()}
    for row in cases.iter_rows(named=True):
        key = (row["case_id"], row["repetition"])
        if (number := numbers.get(key)) is None:  # another repetition
            continue
        lines = [*_row_lines(row), *reasons[key]]
        yield CaseText(number, "\n".join(lines), is_said=False)


def _row_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for name in _LINES:
        if row[name]:
            yield str(row[name])
    yield from (f"{name} {value}" for name, value in json.loads(row["tags"] or "{}").items())
    yield from row["tools"] or ()
    yield from row["flags"] or ()


def _said_texts(record: RunRecord, keys: pl.DataFrame) -> Iterator[CaseText]:
    """The conversations of some cases, redacted as the run's pages show them."""
    try:
        config = run_config(record)
        preprocessor = CasePreprocessor.from_config(config)
    except ConfigurationError:  # its ground truth is gone: no conversation can be read again
        yield from (CaseText(n, "", is_said=True, state=UNREADABLE) for n in keys["n"])
        return
    left = set(keys["n"])
    with Spool.of(config.transcripts) as spool:
        for body in record.plan.get("shards", ()):
            of_shard = keys.filter(
                (pl.col("transcript_uri") == body["uri"])
                & pl.col("position").is_between(body["start"], body["stop"], closed="left")
            )
            if of_shard.is_empty():
                continue
            numbers = {row[0]: row[1:] for row in of_shard.select("position", "n", "hash").rows()}
            # Without its rejects and duplicates: the cases alone are read.
            take = sorted(numbers)
            shard = Shard.from_dict({**body, "take": take, "rejected": []})
            for shard_record in read_shard(shard, config.transcripts, spool, preprocessor):
                number, content_hash = numbers.get(shard_record.position, (None, ""))
                if number in left:
                    left.discard(number)
                    yield _said_text(number, content_hash, shard_record.case, preprocessor)
    yield from (CaseText(n, "", is_said=True, state=UNREADABLE) for n in sorted(left))


def _said_text(
    number: int, content_hash: str, case: Case | None, preprocessor: CasePreprocessor
) -> CaseText:
    # Today's transcript may not be the one that was judged, and then no page shows it either.
    if case is None or case.content_hash() != content_hash:
        return CaseText(number, "", is_said=True, state=UNREADABLE)
    text = conversation_text(preprocessor.displayed_case(case))
    return CaseText(number, text, is_said=True, state=READ)


def conversation_text(case: Case) -> str:
    """The turns of a conversation as one text: what was said, tool calls, and their results."""
    lines: list[str] = []
    size = 0
    for turn in case.transcript.turns:
        for line in (turn.all_text(), *map(_call_text, turn.tool_calls)):
            lines.append(line)
            size += len(line) + 1
        if size > TEXT_CHARS:
            break
    return "\n".join(lines)[:TEXT_CHARS]


def _call_text(call: ToolCall) -> str:
    arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str)
    return f"{call.name} {arguments}"
