"""What waits at one moment is written to the ledger together, and is written before it goes on."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.call_gates import BudgetGate
from assizes.judge.engine.ledger import Account, CallSpending, PlannedCall
from assizes.judge.errors import NotAsked
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.spending.ledger_file import NANO, write_stop
from tests.tasks.spending.test_ledger import hammer, reconciled, rows
from tests.tasks.spending.test_ledger_busy import written_by_another

AT_ONCE = 32

GROUPED_HAMMER = """
import asyncio, random, sys
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.errors import NotAsked
from assizes.judge.engine.call_gates import BudgetGate
from assizes.judge.engine.ledger import CallSpending, PlannedCall
from assizes.tasks.spending.ledger import SqliteLedger

path, seed, budget = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rng = random.Random(seed)
ledger = SqliteLedger(path, "run", LimitsConfig(budget_usd=budget))
gate = BudgetGate(ledger)

async def ask():
    while True:
        worst = rng.uniform(0.0001, 0.01)
        try:
            ticket = await gate.reserve(PlannedCall(f"{seed}", "m", worst))
        except NotAsked:
            return
        print(ticket, flush=True)
        await asyncio.sleep(rng.uniform(0, 0.003))
        gate.settle(ticket, CallSpending(None, rng.uniform(0, worst)))
        await gate.claim(f"{seed}-{ticket}", "ask")

async def main():
    await asyncio.gather(*(ask() for _ in range(8)))

asyncio.run(main())
ledger.close()
"""


def call(key: str = "key", worst_usd: float = 0.01) -> PlannedCall:
    return PlannedCall(key, "openai/m", worst_usd)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    limits = LimitsConfig(budget_usd=1000.0)
    with closing(SqliteLedger(str(tmp_path / "ledger.db"), "run", limits)) as opened:
        yield opened


async def test_asks_of_one_moment_are_written_together(tmp_path: Path, ledger: SqliteLedger):
    log = tmp_path / "ledger.db-wal"

    async def ask(gate: BudgetGate, key: str) -> None:
        ticket = await gate.reserve(call(key))
        gate.settle(ticket, CallSpending(None, 0.001))
        assert await gate.claim(key, key)

    before = log.stat().st_size
    for number in range(AT_ONCE):
        await ask(BudgetGate(ledger), f"alone-{number}")
    alone = log.stat().st_size - before
    gate = BudgetGate(ledger)
    await asyncio.gather(*(ask(gate, f"together-{number}") for number in range(AT_ONCE)))
    together = log.stat().st_size - before - alone
    assert together < alone / 4  # pages of the write-ahead log: each transaction writes its own
    account = ledger.run_account()
    assert (account.calls, account.open_calls) == (2 * AT_ONCE, 0)
    assert account.usd == pytest.approx(2 * AT_ONCE * 0.001)
    reconciled(tmp_path)


async def test_calls_of_one_moment_share_the_rest_of_a_budget(tmp_path: Path):
    limits = LimitsConfig(max_asks=5)
    with closing(SqliteLedger(str(tmp_path / "ledger.db"), "run", limits)) as ledger:
        gate = BudgetGate(ledger)
        asking = [asyncio.create_task(gate.reserve(call(str(n)))) for n in range(8)]
        granted = await asyncio.wait_for(
            asyncio.gather(*asking[:5]), 30
        )  # first come, first served
        assert not any(task.done() for task in asking[5:])
        for ticket in granted:
            gate.settle(ticket, CallSpending(None, 0.001))
        refusals = await asyncio.gather(*asking[5:], return_exceptions=True)
        assert all(isinstance(error, NotAsked) and error.code == "budget" for error in refusals)
        assert ledger.run_account() == Account(5, 0.005)
    reconciled(tmp_path)


async def test_who_is_cancelled_once_the_call_is_reserved_gives_its_money_back(
    tmp_path: Path, ledger: SqliteLedger
):
    gate = BudgetGate(ledger)
    asking = [asyncio.create_task(gate.reserve(call(str(n)))) for n in range(4)]
    await asyncio.sleep(0)  # they begin to wait
    await asyncio.sleep(0)  # what waits is written
    assert ledger.run_account().calls == 4
    assert not any(task.done() for task in asking)  # written, and not yet told
    asking[0].cancel()
    await asyncio.wait(asking)
    assert asking[0].cancelled()
    for task in asking[1:]:
        gate.settle(task.result(), CallSpending(None, 0.001))
    account = ledger.run_account()
    assert (account.open_calls, account.usd) == (0, pytest.approx(0.003))
    reconciled(tmp_path)


async def test_who_is_cancelled_while_waiting_is_not_reserved(tmp_path: Path, ledger: SqliteLedger):
    gate = BudgetGate(ledger)
    with written_by_another(Path(ledger.path)) as other:
        asking = [asyncio.create_task(gate.reserve(call(str(n)))) for n in range(4)]
        await asyncio.sleep(0.05)
        asking[1].cancel()
        other.execute("rollback")
        await asyncio.wait(asking)
    assert rows(tmp_path, "select key from calls order by id") == [("0",), ("2",), ("3",)]
    reconciled(tmp_path)


async def test_a_stop_refuses_all_that_wait(ledger: SqliteLedger):
    write_stop(ledger.path, "run")
    gate = BudgetGate(ledger)
    asking = [gate.reserve(call(str(n))) for n in range(4)]
    ends = await asyncio.gather(*asking, return_exceptions=True)
    assert [getattr(end, "code", end) for end in ends] == ["halted"] * 4
    assert ledger.run_account().calls == 0


async def test_a_file_that_breaks_refuses_calls_and_lets_paid_replies_be_charged(
    tmp_path: Path, ledger: SqliteLedger
):
    gate = BudgetGate(ledger)
    ticket = await gate.reserve(call())
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        file.execute(
            "create trigger full before insert on claims begin "
            "select raise(abort, 'database or disk is full'); end"
        )
        file.commit()
    gate.settle(ticket, CallSpending(None, 0.001))
    paid, refused = await asyncio.gather(
        gate.claim("key", "ask"), gate.reserve(call("next")), return_exceptions=True
    )
    assert paid is True
    assert isinstance(refused, NotAsked)
    assert refused.code == "closing"
    assert "disk is full" in str(refused)
    assert ledger.run_account().calls == 1


def test_killed_processes_lose_no_reservation_and_others_keep_the_budget(tmp_path: Path):
    budget, rng, victims = 2.0, random.Random(5), 3
    working = [hammer(tmp_path, seed, budget, GROUPED_HAMMER) for seed in range(3)]
    told: set[int] = set()
    for seed in range(3, 3 + victims):
        victim = working.pop(0)
        assert victim.stdout is not None
        if first := victim.stdout.readline():  # else the budget was spent before it asked
            told.add(int(first))
        time.sleep(rng.uniform(0.01, 0.1))
        victim.send_signal(signal.SIGKILL)
        for line in victim.communicate()[0].splitlines(keepends=True):
            if line.endswith("\n"):
                told.add(int(line))
        working.append(hammer(tmp_path, seed, budget, GROUPED_HAMMER))
    for process in working:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        told |= {int(line) for line in out.split()}
    kept = {ticket for (ticket,) in rows(tmp_path, "select id from calls")}
    assert told <= kept  # whoever was told that a call is reserved finds it in the file
    ((nano, open_calls),) = rows(
        tmp_path, "select nano, open_calls from totals where scope = 'run:run'"
    )
    assert nano <= budget * NANO
    assert open_calls <= victims * 8
    reconciled(tmp_path)
