"""Money through the real engine: whatever models do, no more is spent than was allowed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig, Price
from assizes.judge.engine.attempts import Backoff
from assizes.judge.engine.call_gates import BudgetGate
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import CallSpending, OpenLedger, PlannedCall
from assizes.judge.errors import ModelError, NotAsked
from assizes.judge.models.model import Completion, ScriptedModel
from assizes.judge.prompts.prompt_texts import most_sent
from assizes.tasks.spending.ledger import SqliteLedger
from tests.judge.engine.levels import CASE, Asking

SEEDS = 100
ASKS = 30
WORST_SENT = 600
"""About the most tokens that the prompt of an ask can be."""

FAULTS = ("unavailable", "refused", "context_overflow", "bad_request")


class Dear(ScriptedModel):
    """Answers after a random while, at a random price up to the worst case; often fails."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__([], cache_key=None)
        self.rng = rng
        self.price = Price(
            input_usd_per_million=rng.uniform(0.1, 50), output_usd_per_million=rng.uniform(0.1, 200)
        )
        self.spent_usd = 0.0
        self.calls = 0

    async def complete(self, ask, *, complaint=None, cap=1):
        self.calls += 1
        await asyncio.sleep(self.rng.choice((0, 0, 0.001)))
        fault = self.rng.random()
        if fault < 0.2:
            raise ModelError(self.rng.choice(FAULTS), "scripted")
        sent, most = self.tokens(ask, cap)
        # The estimate may be far too low: any number of tokens that the prompt can be.
        tokens = self.rng.randint(1, most_sent(ask, sent, complaint)), self.rng.randint(1, most)
        cost = self.price.cost_usd(*tokens)
        self.spent_usd += cost
        return Completion(
            '{"score": 4}' if fault < 0.9 else "not JSON",
            self.name,
            *tokens,
            cost_usd=cost if fault > 0.25 else None,
        )


@pytest.mark.parametrize("part", range(4))
async def test_no_run_spends_more_than_its_budget_whatever_its_model_does(
    tmp_path: Path, part: int
):
    stopped = 0
    for seed in range(part, SEEDS, 4):
        rng = random.Random(seed)
        model = Dear(rng)
        worst = model.price.cost_usd(WORST_SENT, 100)
        limits = LimitsConfig(
            budget_usd=worst * rng.uniform(0.5, 1.5 * ASKS),
            max_asks=rng.choice((None, rng.randint(1, 2 * ASKS))),
            max_in_flight=rng.randint(1, 16),
        )
        run_id = f"run-{seed}"
        ledger = SqliteLedger(str(tmp_path / "ledger.db"), run_id, limits)
        means = EngineDependencies(run_id=run_id, ledger=ledger, backoff=Backoff(0.001, 0.002))
        engine = Engine(model, limits, means)
        heard = await asyncio.gather(
            *(engine.hear(Asking([f"{number}"]), CASE) for number in range(ASKS))
        )
        account = ledger.run_account()
        ledger.close()

        assert account.usd <= limits.budget_usd
        assert model.spent_usd <= account.usd + 1e-6
        assert account.calls == model.calls <= (limits.max_asks or model.calls)
        assert (account.open_calls, account.unpriced) == (0, 0)
        refused = [ask for one in heard for ask in one.asks if "budget" in (ask.error or "")]
        stopped += bool(refused)
        if refused and limits.max_asks is None:
            # Not stopped before its time: even the cheapest call could have been one too many.
            assert limits.budget_usd - account.usd < model.price.cost_usd(2 * WORST_SENT, 200)
    assert stopped >= 5


async def test_calls_that_do_not_fit_beside_others_are_made_after_them(tmp_path: Path):
    limits = LimitsConfig(budget_usd=0.25, max_in_flight=16)
    ledger = SqliteLedger(str(tmp_path / "ledger.db"), "run", limits)
    purse, most = BudgetGate(ledger), 0

    async def spend() -> None:
        nonlocal most
        ticket = await purse.reserve(PlannedCall("key", "m", 0.1))
        most = max(most, ledger.run_account().open_calls)
        await asyncio.sleep(0.005)
        purse.settle(ticket, CallSpending(None, 0.01))

    await asyncio.gather(*(spend() for _ in range(15)))
    assert most == 2
    assert ledger.run_account().usd == 0.15
    await spend()
    with pytest.raises(NotAsked, match="budget_usd = 0.25: 0.160000 USD"):
        await purse.reserve(PlannedCall("key", "m", 0.1))


async def test_who_waits_for_money_goes_on_in_turn_when_another_gives_up():
    class Broke(OpenLedger):
        """Lets one call through at a time."""

        def __init__(self) -> None:
            super().__init__()
            self.open = 0

        def reserve(self, call: PlannedCall, *, wait: bool = True) -> int:
            if self.open:
                raise NotAsked("budget", "not now")
            self.open += 1
            return 1

        def settle(self, ticket: int, spent: CallSpending) -> None:
            self.open -= 1

        def claim(self, reply_key: str, ask_id: str, *, wait: bool = True) -> bool:
            return True

    purse, nothing = BudgetGate(Broke()), CallSpending(None, 0.0)
    first = await purse.reserve(PlannedCall("a", "m", 1.0))
    impatient = asyncio.create_task(purse.reserve(PlannedCall("b", "m", 1.0)))
    patient = asyncio.create_task(purse.reserve(PlannedCall("c", "m", 1.0)))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    assert not patient.done()
    purse.settle(first, nothing)
    assert await patient == 1
