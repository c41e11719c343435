"""The ledger: exact sums, limits that hold between processes and under kill -9, readable faults."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.ledger import Account, CallSpending, PlannedCall
from assizes.judge.errors import AssizesError, ConfigurationError, NotAsked, StoreError
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.spending.ledger_file import (
    NANO,
    all_runs_stopped_at,
    known_runs,
    lift_stop,
    write_stop,
)
from tests.outward import PYTHONPATH

DAY_S = 86_400

HAMMER = """
import random, sys
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.errors import NotAsked
from assizes.judge.engine.ledger import CallSpending, PlannedCall
from assizes.tasks.spending.ledger import SqliteLedger

path, seed, budget = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rng = random.Random(seed)
ledger = SqliteLedger(path, "run", LimitsConfig(budget_usd=budget))
print("ready", flush=True)
while True:
    worst = rng.uniform(0.0001, 0.01)
    try:
        ticket = ledger.reserve(PlannedCall(f"{seed}", "m", worst))
    except NotAsked:
        break
    ledger.settle(ticket, CallSpending(None, rng.uniform(0, worst)))
"""


def ledger(folder: Path, run_id: str = "run", now: list[float] | None = None, **limits: object):
    settings = LimitsConfig.model_validate(limits)
    path = str(folder / "ledger.db")
    if now is None:
        return SqliteLedger(path, run_id, settings)
    return SqliteLedger(path, run_id, settings, clock=lambda: now[0])


def call(worst_usd: float | None = 0.1) -> PlannedCall:
    return PlannedCall("key", "openai/m", worst_usd)


def paid(cost_usd: float | None) -> CallSpending:
    return CallSpending(None, cost_usd, 10, 5, 1.0)


def rows(folder: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(folder / "ledger.db")) as file:
        return file.execute(sql).fetchall()


def reconciled(folder: Path) -> None:
    """The totals are the sums of the calls, to the nano-dollar."""
    for scope, column in (("run", "run_id"), ("day", "day")):
        summed = rows(
            folder,
            f"select '{scope}:' || {column}, count(*), sum(counted_nano), sum(state = 'reserved'), "
            f"sum(iif(state = 'reserved', counted_nano, 0)) from calls group by 1 order by 1",
        )
        kept = rows(
            folder,
            "select scope, calls, nano, open_calls, open_nano from totals "
            f"where scope like '{scope}:%' order by 1",
        )
        assert kept == summed


def test_a_call_is_counted_at_its_worst_until_it_is_settled(tmp_path: Path):
    book = ledger(tmp_path)
    ticket = book.reserve(call(0.1))
    assert book.run_account() == Account(1, 0.1, 1, 0.1)
    book.settle(ticket, paid(0.04))
    assert book.run_account() == Account(1, 0.04)
    book.settle(ticket, paid(0.09))
    assert book.run_account() == Account(1, 0.04)
    reconciled(tmp_path)
    assert rows(tmp_path, "select model, cost_nano, input_tokens, state from calls") == [
        ("openai/m", 40_000_000, 10, "settled")
    ]


def test_a_cost_that_is_not_known_is_the_worst_case_never_nothing(tmp_path: Path):
    book = ledger(tmp_path)
    book.settle(book.reserve(call(0.1)), CallSpending("timeout", None))
    book.settle(book.reserve(call(0.1)), CallSpending("rate_limited", 0.0))
    assert book.run_account() == Account(2, 0.1)
    book.settle(book.reserve(call(None)), paid(None))
    assert book.run_account() == Account(3, 0.1, unpriced=1)
    book.settle(book.reserve(call(None)), paid(0.2))
    assert book.run_account().usd == pytest.approx(0.3)
    assert book.run_account().unpriced == 1


def test_thousands_of_tenths_of_cents_sum_exactly(tmp_path: Path):
    book = ledger(tmp_path)
    for _ in range(3000):
        book.settle(book.reserve(call(0.001)), paid(0.0001))
    assert book.run_account().usd == 0.3


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"budget_usd": 0.25}, r"\[limits\] budget_usd = 0.25: 0.200000 USD .* cost 0.100000 USD"),
        ({"budget_usd_per_day": 0.25}, r"\[limits\] budget_usd_per_day = 0.25: 0.200000 USD"),
        ({"max_asks": 2}, r"\[limits\] max_asks = 2: 2 calls were made"),
        ({"max_asks_per_day": 2}, r"\[limits\] max_asks_per_day = 2: 2 calls"),
    ],
)
def test_what_could_exceed_a_limit_is_not_asked(tmp_path: Path, limits, said):
    book = ledger(tmp_path, **limits)
    for _ in range(2):
        book.settle(book.reserve(call(0.1)), paid(None))
    with pytest.raises(NotAsked, match=said) as refused:
        book.reserve(call(0.1))
    assert refused.value.code == "budget"
    assert book.run_account().calls == 2


def test_a_budget_without_a_price_lets_nothing_through(tmp_path: Path):
    with pytest.raises(NotAsked, match="no price is known for openai/m"):
        ledger(tmp_path, budget_usd=1).reserve(call(None))


def test_a_day_is_shared_by_all_runs_and_ends(tmp_path: Path):
    now = [20_000.0 * DAY_S + DAY_S - 10]
    first = ledger(tmp_path, "a", now, budget_usd_per_day=0.15)
    second = ledger(tmp_path, "b", now, budget_usd_per_day=0.15)
    ticket = first.reserve(call(0.1))
    with pytest.raises(NotAsked, match="per_day"):
        second.reserve(call(0.1))
    now[0] += 20
    second.reserve(call(0.1))
    first.settle(ticket, paid(0.02))
    assert dict(rows(tmp_path, "select scope, nano from totals")) == {
        "run:a": 20_000_000,
        "day:2024-10-04": 20_000_000,
        "run:b": 100_000_000,
        "day:2024-10-05": 100_000_000,
    }


def test_a_reservation_of_a_process_that_died_stays_and_another_may_settle_it(tmp_path: Path):
    first = ledger(tmp_path, budget_usd=0.15)
    ticket = first.reserve(call(0.1))
    first.close()
    later = ledger(tmp_path, budget_usd=0.15)
    with pytest.raises(NotAsked):
        later.reserve(call(0.1))
    assert later.run_account() == Account(1, 0.1, 1, 0.1)
    later.settle(ticket, paid(0.01))
    later.reserve(call(0.1))


def test_a_call_that_was_never_made_is_taken_back_whole(tmp_path: Path):
    book = ledger(tmp_path, max_asks=2)
    made, unmade = book.reserve(call(0.1)), book.reserve(call(0.3))
    book.cancel(unmade, "another ask")
    ledger(tmp_path, "other").cancel(unmade, "key")
    assert book.run_account().calls == 2
    book.cancel(unmade, "key")
    book.cancel(unmade, "key")
    assert book.run_account() == Account(1, 0.1, 1, 0.1)
    reconciled(tmp_path)
    book.settle(made, paid(0.04))
    book.cancel(made, "key")
    assert book.run_account() == Account(1, 0.04)
    book.reserve(call(0.1))
    reconciled(tmp_path)


def test_a_ticket_of_another_run_or_another_ask_is_not_settled(tmp_path: Path):
    mine, other = ledger(tmp_path, "mine"), ledger(tmp_path, "other")
    ticket = other.reserve(call(0.1))
    mine.settle(ticket, CallSpending("expired", 0.0))
    other.settle(ticket, CallSpending("expired", 0.0), "another ask")
    assert other.run_account() == Account(1, 0.1, 1, 0.1)
    other.settle(ticket, paid(0.04), "key")
    assert other.run_account() == Account(1, 0.04)
    reconciled(tmp_path)


def test_the_first_to_claim_a_reply_has_it_for_ever_and_each_run_for_itself(tmp_path: Path):
    first = ledger(tmp_path)
    assert first.claim("k", "here")
    assert not first.claim("k", "there")
    first.close()
    assert ledger(tmp_path).claim("k", "here")
    assert not ledger(tmp_path).claim("k", "there")
    assert ledger(tmp_path, "other").claim("k", "there")


def test_a_stop_holds_for_the_sitting_and_the_next_one_knows_of_it(tmp_path: Path):
    book, other = ledger(tmp_path), ledger(tmp_path, "other")
    path = str(tmp_path / "ledger.db")
    assert book.resumed_after is None
    write_stop(path, "run")
    assert book.stopped_at()
    with pytest.raises(NotAsked, match=r"stopped at \d{4}-.* UTC") as refused:
        book.reserve(call())
    assert refused.value.code == "halted"
    other.reserve(call())

    again = ledger(tmp_path)
    assert again.resumed_after
    again.reserve(call())
    assert book.stopped_at(), "the stopped process must not go on because another has begun"
    assert ledger(tmp_path).resumed_after is None


def test_a_stop_of_all_runs_holds_until_it_is_lifted(tmp_path: Path):
    path = str(tmp_path / "ledger.db")
    assert all_runs_stopped_at(path) is None
    assert not lift_stop(path)
    write_stop(path, None)
    book = ledger(tmp_path)
    with pytest.raises(NotAsked):
        book.reserve(call())
    assert all_runs_stopped_at(path)
    assert lift_stop(path)
    book.reserve(call())


def test_the_runs_of_a_ledger_are_listed_newest_first(tmp_path: Path):
    assert known_runs(str(tmp_path / "ledger.db")) == []
    for run_id in ("a", "b", "a"):
        ledger(tmp_path, run_id)
    assert known_runs(str(tmp_path / "ledger.db")) == ["a", "b"]


def test_a_ledger_that_cannot_be_made_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "ledger.db", tmp_path):
        with pytest.raises(
            ConfigurationError, match=r"\[limits\] ledger .* cannot be written"
        ) as no:
            SqliteLedger(str(path), "run", LimitsConfig())
        assert "\n" not in str(no.value)


def test_another_file_is_not_taken_for_a_ledger(tmp_path: Path):
    (tmp_path / "ledger.db").write_text("something else, long enough to be read as a header " * 9)
    with pytest.raises(StoreError, match="is no ledger of assizes: it is no SQLite database"):
        ledger(tmp_path)
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as theirs:
        theirs.execute("create table mine (x)")
    before = (tmp_path / "theirs.db").read_bytes()
    with pytest.raises(StoreError, match="it holds something else"):
        SqliteLedger(str(tmp_path / "theirs.db"), "run", LimitsConfig())
    assert (tmp_path / "theirs.db").read_bytes() == before


def test_a_ledger_of_another_version_is_refused(tmp_path: Path):
    ledger(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        file.execute("pragma user_version = 9")
    with pytest.raises(StoreError, match="has version 9, this assizes reads version 1"):
        ledger(tmp_path)


def test_a_ledger_that_breaks_lets_nobody_spend_and_loses_no_reply(tmp_path: Path):
    book = ledger(tmp_path)
    ticket = book.reserve(call())
    book.close()
    book.settle(ticket, paid(0.1))
    with pytest.raises(NotAsked, match="cannot be written") as refused:
        book.reserve(call())
    assert refused.value.code == "closing"
    with pytest.raises(AssizesError, match="cannot be read"):
        book.run_account()


def test_a_refusal_keeps_what_was_settled_while_another_process_wrote(tmp_path: Path):
    book = ledger(tmp_path, max_asks=1)
    ticket = book.reserve(call(0.1))
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        book.settle(ticket, paid(0.04))  # busy: it waits for the next transaction
        other.execute("rollback")
    with pytest.raises(NotAsked, match="max_asks"):
        book.reserve(call(0.1))
    # Without `close`: a process may be killed now.
    assert rows(tmp_path, "select state, cost_nano from calls") == [("settled", 40_000_000)]
    assert book.run_account() == Account(1, 0.04)
    reconciled(tmp_path)


def hammer(folder: Path, seed: int, budget: float, program: str = HAMMER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder / "ledger.db"), str(seed), str(budget)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_four_processes_share_a_budget_and_none_exceeds_it_though_some_are_killed(tmp_path: Path):
    budget, rng = 3.0, random.Random(5)
    working = [hammer(tmp_path, seed, budget) for seed in range(4)]
    for seed in range(4, 8):
        victim = working.pop(0)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(rng.uniform(0.01, 0.1))
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        working.append(hammer(tmp_path, seed, budget))
    for process in working:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    ((nano, open_calls),) = rows(
        tmp_path, "select nano, open_calls from totals where scope = 'run:run'"
    )
    assert budget * NANO - 0.01 * NANO <= nano <= budget * NANO
    assert open_calls <= 4
    reconciled(tmp_path)


def test_a_ledger_in_which_no_sitting_can_begin_is_a_readable_fault(tmp_path: Path):
    ledger(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        file.execute(
            "create trigger full before insert on sittings begin "
            "select raise(abort, 'database or disk is full'); end"
        )
        file.commit()
    with pytest.raises(StoreError, match=r"ledger\.db' cannot be written: .* disk is full"):
        ledger(tmp_path)


@pytest.mark.parametrize(
    "absurd",
    [
        CallSpending(None, 0.05, input_tokens=2**63, output_tokens=10**400),
        CallSpending(None, 0.05, input_tokens=-1),
        CallSpending(None, float("inf")),
        CallSpending(None, float("nan")),
        CallSpending(None, 1e300),
        CallSpending(None, -5.0),
    ],
)
def test_a_number_that_sqlite_cannot_hold_ends_no_later_call(tmp_path: Path, absurd: CallSpending):
    book = ledger(tmp_path)
    book.settle(book.reserve(call()), absurd)
    book.settle(book.reserve(call()), paid(0.05))  # of another case
    book.close()
    counted = rows(tmp_path, "select counted_nano, state from calls order by id")
    known = absurd.cost_usd == 0.05  # a cost that is not believed is the worst case
    first = 50_000_000 if known else 100_000_000
    assert counted == [(first, "settled"), (50_000_000, "settled")]
    reconciled(tmp_path)
