"""A ledger that another process is writing to: nobody waits in the event loop, nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import Account, CallSpending, PlannedCall
from assizes.judge.errors import LedgerBusy
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.spending.ledger import SqliteLedger
from tests.judge.engine.levels import CASE, Asking, priced

CALL = PlannedCall("key", "openai/m", 0.1)


@contextmanager
def written_by_another(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        yield other


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    with closing(SqliteLedger(str(tmp_path / "ledger.db"), "run", LimitsConfig())) as opened:
        yield opened


def test_who_must_not_wait_is_told_at_once_that_another_is_writing(ledger: SqliteLedger):
    with written_by_another(Path(ledger.path)):
        started = time.monotonic()
        with pytest.raises(LedgerBusy, match=r"ledger\.db' is being written"):
            ledger.reserve(CALL, wait=False)
        with pytest.raises(LedgerBusy):
            ledger.claim("key", "place", wait=False)
        assert ledger.stopped_at() is None
        assert time.monotonic() - started < 5
    assert ledger.run_account() == Account(0, 0.0)


def test_what_came_meanwhile_is_settled_with_what_is_written_next(ledger: SqliteLedger):
    first, second = ledger.reserve(CALL), ledger.reserve(CALL)
    with written_by_another(Path(ledger.path)):
        ledger.settle(first, CallSpending(None, 0.01))
        ledger.settle(second, CallSpending(None, 0.02))
        assert ledger.run_account() == Account(2, 0.2, 2, 0.2)
    assert ledger.claim("key", "place")
    assert ledger.run_account() == Account(2, 0.03)


def test_what_is_due_is_settled_when_the_ledger_is_closed(tmp_path: Path):
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(str(path), "run", LimitsConfig())
    ticket = ledger.reserve(CALL)
    with written_by_another(path):
        ledger.settle(ticket, CallSpending(None, 0.01))
    ledger.close()
    with closing(SqliteLedger(str(path), "another", LimitsConfig())) as again:
        assert again.run_account("run") == Account(1, 0.01)


async def test_an_ask_waits_for_the_other_while_the_event_loop_goes_on(ledger: SqliteLedger):
    engine = Engine(ScriptedModel([priced(4)]), LimitsConfig(), EngineDependencies(ledger=ledger))
    with written_by_another(Path(ledger.path)) as other:
        asking = asyncio.create_task(engine.hear(Asking(), CASE))
        looks = 0
        for _ in range(20):
            await asyncio.sleep(0.005)
            looks += 1
        assert (looks, asking.done(), engine.calls) == (20, False, 0)
        other.execute("rollback")
    heard = await asking
    assert heard.asks[0].attempts == 1
    assert ledger.run_account().calls == 1
