"""The log of batches: records, tickets, replies that wait to be taken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.judge.errors import StoreError
from assizes.judge.models.model import (
    Completion,
    UnusableReply,
)
from assizes.tasks.batch.batch_log import BatchedKeys, BatchLog, BatchRecord, BatchResults

RECORD = BatchRecord("run-1", 1, 1, "openai/stub", "0" * 12, asks=2, keys_hash="f" * 64)
CAME = Completion('{"score": 4}', "stub", 10, 5, 0.25, flags=("batch",))
REFUSED = UnusableReply("refused", "no", CAME)


def key_of(number: int) -> str:
    return f"{number:064x}"


def test_a_record_is_read_back_as_it_was_noted_by_any_later_process(place):
    book = BatchLog(*place, "run-1")
    book.prepare(RECORD, [(key_of(1), 7), (key_of(2), 8)])
    book.save(replace(RECORD, state="submitted", batch_id="batch_1"))
    later = replace(RECORD, round=10)
    book.prepare(later, [])

    again = BatchLog(*place, "run-1")
    assert again.records() == [replace(RECORD, state="submitted", batch_id="batch_1"), later]
    assert again.tickets(RECORD) == {key_of(1): 7, key_of(2): 8}
    assert BatchLog(*place, "run-2").records() == []


def test_first_attempts_that_did_not_fit_are_kept_with_their_codes(place):
    book = BatchLog(*place, "run-1")
    book.save_first_attempts(RECORD, {key_of(1): CAME, key_of(2): REFUSED})
    given = BatchLog(*place, "run-1").first_attempts()

    assert given[key_of(1)] == CAME
    assert (given[key_of(2)].code, given[key_of(2)].detail) == ("refused", "no")
    assert given[key_of(2)].completion == CAME


def test_a_part_that_another_process_has_prepared_is_refused(place):
    BatchLog(*place, "run-1").prepare(RECORD, [])
    with pytest.raises(StoreError, match="another process works on this run"):
        BatchLog(*place, "run-1").prepare(RECORD, [])


def test_a_part_that_is_refused_leaves_the_tickets_of_the_first_as_they_were(place):
    BatchLog(*place, "run-1").prepare(RECORD, [(key_of(1), 7)])
    with pytest.raises(StoreError, match="another process works on this run"):
        BatchLog(*place, "run-1").prepare(RECORD, [(key_of(1), 9)])

    assert BatchLog(*place, "run-1").tickets(RECORD) == {key_of(1): 7}


def test_a_part_of_an_older_log_is_read_with_its_tickets(tmp_path: Path):
    BatchLog(str(tmp_path), {}, "run-1").prepare(RECORD, [(key_of(1), 7)])
    path = tmp_path / "batches/run-1/1-1.json"
    older = {name: held for name, held in json.loads(path.read_bytes()).items() if name != "writer"}
    path.write_text(json.dumps(older))
    (record,) = BatchLog(str(tmp_path), {}, "run-1").records()

    assert BatchLog(str(tmp_path), {}, "run-1").tickets(record) == {key_of(1): 7}


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path):
    book = BatchLog(str(tmp_path), {}, "run-1")
    book.prepare(RECORD, [])
    (tmp_path / "batches/run-1/1-1.json").write_text("{")
    with pytest.raises(StoreError, match="1-1.json is no record of a batch"):
        book.records()
    (tmp_path / "batches/run-1/1-1.asks").unlink()
    with pytest.raises(StoreError, match="1-1.asks is missing"):
        book.tickets(RECORD)


def test_what_came_is_taken_once(tmp_path: Path):
    inbox = BatchResults(tmp_path)
    inbox.add([("a", CAME), ("b", CAME), ("b", CAME)])

    assert (inbox.pop("a"), inbox.pop("a"), inbox.pop("c")) == (CAME, None, None)
    assert (inbox.pop_all(), inbox.pop_all()) == ({"b": CAME}, {})
    inbox.close()


def test_keys_are_told_apart_and_may_be_dropped():
    keys = BatchedKeys()
    assert [keys.add("ab" * 32), keys.add("ab" * 32), keys.add("cd" * 32)] == [True, False, True]
    keys.drop(["ab" * 32])
    assert ("ab" * 32 in keys, "cd" * 32 in keys) == (False, True)
