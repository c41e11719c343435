"""What a run would ask, cost and take: the figures of a forecast."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ledger import Account
from assizes.judge.forecast.ask_forecast import Bench, Tally
from assizes.judge.forecast.reply_estimates import TEXT_TOKENS
from assizes.judge.models.model import OFFLINE_PROVIDER, Model

ENOUGH: Final = 5
"""So many replies of a bench say how long the others will be."""

ASSUMED_LATENCY_S: Final = 5.0


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JudgeForecast(_Part):
    """The asks of one judge to one model, of which `to_put` are not answered yet.

    Tokens and dollars are those of the asks to put. `worst_usd` has every reply at its cap.
    """

    judge: str
    model: str
    asks: int
    kept: int
    same: int = Field(description="answered by another ask of the run")
    to_put: int
    input_tokens: int
    output_tokens: int
    expected_usd: float | None = Field(description="null: no price is known")
    worst_usd: float | None
    latency_s: float = Field(description="of one call")


class LimitForecast(_Part):
    """One of the limits on spending: `spent` before the run goes on, what it would add, and whether
    that fits: what is expected, and by batch the worst case, which is set aside beforehand.
    """

    limit: str
    allows: float
    spent: float
    expected: float | None
    worst: float | None
    fits: bool | None = Field(description="null: no price is known")


class RunForecast(_Part):
    """Everything `assizes plan` says."""

    run_id: str
    status: str | None = Field(description="of the run in the store; null where it is not there")
    transcripts: dict[str, int] = Field(
        description="read = due + duplicates + rejected + unselected"
    )
    sampled: int | None = Field(description="cases the figures are scaled up from; null: all")
    asks: int
    kept: int
    same: int
    to_put: int
    input_tokens: int
    output_tokens: int
    expected_usd: float | None
    worst_usd: float | None
    minutes: float | None = Field(
        description="at the limits of the run; null: the provider decides"
    )
    judges: tuple[JudgeForecast, ...]
    limits: tuple[LimitForecast, ...]
    assumptions: tuple[str, ...]
    anchors: RunForecast | None = Field(
        default=None, description="the run over [anchors] beside it, not in the figures above"
    )
    canaries: RunForecast | None = Field(
        default=None, description="the run over the canaries of the anchors, not in these figures"
    )


class Past(NamedTuple):
    """What earlier runs know of a bench: how many replies, their mean tokens and seconds."""

    replies: int
    tokens: float
    latency_s: float


class Spendings(NamedTuple):
    """What the ledger has of the run, and of the present day over all runs."""

    run: Account
    day: Account


@dataclass(frozen=True)
class Scene:
    """What a forecast is made from.

    Args:
        config: the configuration.
        models: each model by its name.
        past: what earlier runs know.
        scale: cases due for each case heard.
    """

    config: RunConfig
    models: Mapping[str, Model]
    past: Mapping[Bench, Past]
    scale: float = 1.0


class Figures:
    """The lines of a forecast and what they rest on."""

    def __init__(self, scene: Scene, tallies: Mapping[Bench, Tally]) -> None:
        self._scene = scene
        self._tallies = {bench: tallies[bench] for bench in sorted(tallies)}
        pairs = dict.fromkeys((bench.judge, bench.model) for bench in self._tallies)
        self.judges = tuple(self._judge(*pair) for pair in pairs)

    def minutes(self) -> float | None:
        """At the limits of the run, to which text rules are not held; null where a batch is as slow
        as the provider likes.
        """
        if self._scene.config.runner.batch:
            return None
        limits, models = self._scene.config.limits, self._scene.models
        called = [one for one in self.judges if not _is_offline(models[one.model])]
        seconds = [sum(one.to_put * one.latency_s for one in called) / limits.max_in_flight]
        for name in {one.model for one in called}:
            mine = [one for one in called if one.model == name]
            asks = sum(one.to_put for one in mine)
            tokens = sum(one.input_tokens + one.output_tokens for one in mine)
            seconds.append(60 * asks / (limits.requests_per_minute or math.inf))
            seconds.append(60 * tokens / (limits.tokens_per_minute or math.inf))
        return round(max(seconds) / 60, 2)

    def assumptions(self) -> Iterator[str]:
        """What was not known and is taken for granted."""
        scene, put = self._scene, [b for b, tally in self._tallies.items() if tally.put]
        asked = {bench.model for bench in put if not _is_offline(scene.models[bench.model])}
        unsized = {bench.judge for bench in put if bench.model in asked and not self._known(bench)}
        if unsized:
            yield (
                f"no reply is known of {_listed(unsized)}: {TEXT_TOKENS} output tokens are assumed "
                "for each text in one"
            )
        if timeless := [name for name in asked if self._mean_latency_s(name) is None]:
            yield f"a call takes {ASSUMED_LATENCY_S:g} s: none of {_listed(timeless)} is known"
        for name in sorted(asked):
            if scene.models[name].price is None:
                yield f'no price is known for {name}: give it in [limits.prices."{name}"]'
        blind = Counter[str]()
        for bench in put:
            blind[bench.judge] += self._tallies[bench].blind
        for judge, times in sorted((+blind).items()):
            yield (
                f"plain rules cannot answer {times} asks of {judge}: what it asks after them is "
                "not counted"
            )

    def _judge(self, judge: str, name: str) -> JudgeForecast:
        """All rounds of a judge before one model."""
        benches = [bench for bench in self._tallies if bench[:2] == (judge, name)]
        found, scale = [self._tallies[bench] for bench in benches], self._scene.scale
        sent = scale * self._ratio(name) * sum(one.sent for one in found)
        came = scale * sum(map(self._came, benches))
        most = scale * sum(one.most for one in found)
        return JudgeForecast(
            judge=judge,
            model=name,
            asks=round(scale * sum(one.asks for one in found)),
            kept=round(scale * sum(one.kept for one in found)),
            same=round(scale * sum(one.same for one in found)),
            to_put=round(scale * sum(one.put for one in found)),
            input_tokens=round(sent),
            output_tokens=round(came),
            expected_usd=self._usd(name, sent, came),
            worst_usd=self._usd(name, max(sent, scale * sum(one.most_sent for one in found)), most),
            latency_s=self._latency_s(name),
        )

    def _ratio(self, name: str) -> float:
        """By how much the model's estimates of prompts are off, by the replies that are kept."""
        found = [tally for bench, tally in self._tallies.items() if bench.model == name]
        guess = sum(one.metered_guess for one in found)
        if sum(one.metered for one in found) < ENOUGH or not guess:
            return 1.0
        return sum(one.metered_sent for one in found) / guess

    def _known(self, bench: Bench) -> float | None:
        """Tokens of a reply: as kept ones were, as those of earlier runs; null: neither is known."""
        tally, past = self._tallies[bench], self._scene.past.get(bench)
        if tally.metered >= ENOUGH:
            return tally.metered_came / tally.metered
        return past.tokens if past is not None and past.replies >= ENOUGH else None

    def _came(self, bench: Bench) -> float:
        tally, known = self._tallies[bench], self._known(bench)
        return tally.came if known is None else tally.put * known

    def _latency_s(self, name: str) -> float:
        if _is_offline(self._scene.models[name]):
            return 0.0
        mean_s = self._mean_latency_s(name)
        return ASSUMED_LATENCY_S if mean_s is None else round(mean_s, 3)

    def _mean_latency_s(self, name: str) -> float | None:
        """Over the calls of a model that are known, kept or earlier; null: too few are."""
        kept = [tally for bench, tally in self._tallies.items() if bench.model == name]
        past = [past for bench, past in self._scene.past.items() if bench.model == name]
        calls = sum(one.metered for one in kept) + sum(one.replies for one in past)
        seconds = sum(one.metered_ms for one in kept) / 1000
        seconds += sum(one.replies * one.latency_s for one in past)
        return seconds / calls if calls >= ENOUGH else None

    def _usd(self, name: str, sent: float, came: float) -> float | None:
        price = self._scene.models[name].price
        if price is None:
            return None
        batch = self._scene.config.runner.batch
        return round(price.cost_usd(math.ceil(sent), math.ceil(came), batch=batch), 6)


def spending_limits(
    config: RunConfig, usd: tuple[float | None, float | None], calls: int, spent: Spendings
) -> Iterator[LimitForecast]:
    """The limits that are set, beside what the run would add to what is spent.

    Args:
        config: names the limits.
        usd: expected dollars, and those of the worst case.
        calls: asks to put.
        spent: what was spent before.
    """
    limits = config.limits
    for name, allows, before, (expected, worst) in (
        ("budget_usd", limits.budget_usd, spent.run.usd, usd),
        ("budget_usd_per_day", limits.budget_usd_per_day, spent.day.usd, usd),
        ("max_asks", limits.max_asks, spent.run.calls, (calls, calls)),
        ("max_asks_per_day", limits.max_asks_per_day, spent.day.calls, (calls, calls)),
    ):
        if allows is not None:
            needed = worst if config.runner.batch else expected
            yield LimitForecast(
                limit=name,
                allows=allows,
                spent=round(before, 9),
                expected=expected,
                worst=worst,
                fits=None if needed is None else before + needed <= allows,
            )


def total(values: Iterable[float | None]) -> float | None:
    """The sum; null as soon as one is not known."""
    known = list(values)
    return None if None in known else round(math.fsum(filter(None, known)), 6)


def _is_offline(model: Model) -> bool:
    return model.provider == OFFLINE_PROVIDER


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
