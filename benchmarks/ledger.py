"""The ledger: CPU of an ask that is reserved, settled and claimed, one by one and in groups.

Both sides take turns within a round and write to files of their own, with a budget to check.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import closing
from pathlib import Path

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.call_gates import BudgetGate
from assizes.judge.engine.ledger import CallSpending, PlannedCall
from assizes.tasks.spending.ledger import SqliteLedger
from benchmarks.figures import Figures

AT_ONCE = (1, 4, 16, 64)
PAID = CallSpending(None, 0.001, 10, 10, 1.0)


def call(number: int) -> PlannedCall:
    """A call that may cost a cent."""
    return PlannedCall(f"{number:064d}", "openai/m", 0.01)


def one_by_one(ledger: SqliteLedger, asks: int) -> None:
    """Three transactions for each ask."""
    for number in range(asks):
        ticket = ledger.reserve(call(number), wait=False)
        ledger.settle(ticket, PAID)
        ledger.claim(call(number).key, "ask", wait=False)


async def in_groups(ledger: SqliteLedger, asks: int, at_once: int) -> None:
    """So many asks at once, each of which waits until it is written."""
    gate = BudgetGate(ledger)

    async def ask(first: int) -> None:
        for number in range(first, asks, at_once):
            ticket = await gate.reserve(call(number))
            await asyncio.sleep(0)
            gate.settle(ticket, PAID)
            await gate.claim(call(number).key, "ask")

    await asyncio.gather(*(ask(first) for first in range(at_once)))


def main() -> None:
    """Measure both sides; the figures are those of the best round of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asks", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    used: dict[int, list[float]] = {at_once: [] for at_once in (0, *AT_ONCE)}  # 0: one by one
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(given.rounds):
            for at_once, results in used.items():
                path = Path(folder) / f"{round_}-{at_once}.db"
                limits = LimitsConfig(budget_usd=1e6)
                with closing(SqliteLedger(str(path), "run", limits)) as ledger:
                    began = time.process_time()
                    if at_once:
                        asyncio.run(in_groups(ledger, given.asks, at_once))
                    else:
                        one_by_one(ledger, given.asks)
                    results.append(1e6 * (time.process_time() - began) / given.asks)
    figures = Figures()
    alone = min(used[0])
    figures.add("ledger_one_by_one_us_an_ask", alone)
    for at_once in AT_ONCE:
        figures.add(f"ledger_{at_once}_at_once_us_an_ask", min(used[at_once]))
        figures.add(f"ledger_{at_once}_at_once_of_one_by_one", min(used[at_once]) / alone)
    figures.close()


if __name__ == "__main__":
    main()
