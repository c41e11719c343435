"""One flipped bit in the ledger or in a kept reply is told, or changes neither money nor score."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.ledger import CachedReply, CallSpending, PlannedCall
from assizes.judge.errors import StoreError
from assizes.judge.models.model import Completion
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.spending.ledger_file import run_spending, spending_today
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.tasks.store.rot import silent_flips

EACH = int(os.environ.get("ASSIZES_ROT_FLIPS", "4")) * 10
"""Flips of each class of bytes of each file; `make torture` makes more."""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger of two runs with settled, open and unpriced calls."""
    file = tmp_path / "ledger.db"
    for run_id in ("one", "two"):
        opened = SqliteLedger(str(file), run_id, LimitsConfig())
        for number in range(12):
            worst = None if number == 5 else 0.01
            ticket = opened.reserve(PlannedCall(f"key-{number}", "m", worst))
            if number % 4:
                opened.settle(ticket, CallSpending(None if number == 5 else 0.001 * number, 7, 9))
        opened.close()
    return file


def test_a_bit_that_flips_in_the_ledger_changes_no_sum_unsaid(ledger):
    def sums():
        path = str(ledger)
        return [run_spending(path, "one"), run_spending(path, "two"), spending_today(path)]

    assert sums()[0].calls == 12
    found, told = silent_flips(ledger, sums, each=EACH, seed=1)
    assert found == []
    assert told > EACH / 2


def test_a_list_of_tables_that_is_no_text_is_told(ledger):
    data = ledger.read_bytes()
    for name in (b"calls", b"totals"):
        at = data.index(b"table" + name + name)  # the kind, the name, the table of an entry
        ledger.write_bytes(
            data[: at + 5] + b"\xf7" + data[at + 6 :].replace(b"create", b"c\xf7eate", 1)
        )
        with pytest.raises(StoreError, match="ledger.db' is damaged: [^\n]*$"):
            run_spending(str(ledger), "one")


def test_a_session_does_not_begin_over_other_totals(ledger):
    with sqlite3.connect(ledger) as con:
        con.execute("update totals set nano = nano - 8 where scope = 'run:one'")
    con.close()
    with pytest.raises(StoreError, match="ledger.db' is damaged: the totals of run:one are not"):
        SqliteLedger(str(ledger), "two", LimitsConfig())


def test_a_bit_that_flips_in_a_kept_reply_makes_it_a_miss(tmp_path):
    cache, key = FileReplyCache(str(tmp_path)), "ab" * 32
    reply = CachedReply(Completion('{"score": 8, "why": "naïve"}', "m"), paid_by="one")
    asyncio.run(cache.store(key, reply))
    (file,) = tmp_path.rglob("*.json")

    def kept() -> bool:
        found = asyncio.run(FileReplyCache(str(tmp_path)).get(key))
        return found in (None, reply)  # a miss is asked again

    found, _ = silent_flips(file, kept, each=EACH, seed=2)
    assert found == []
