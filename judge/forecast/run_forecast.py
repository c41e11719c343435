"""The figures of a forecast: how much a run would ask and cost, and how long it would take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.run import RunConfig
from assizes.judge.engine.ledger import Account
from assizes.judge.forecast.ask_forecast import TEXT_TOKENS, AskGroup, AskTally
from assizes.judge.forecast.cost_options import CostOption
from assizes.judge.models.model import OFFLINE_PROVIDER, Model

MIN_KNOWN_REPLIES: Final = 5
"""With at least this many known replies, their mean replaces the estimate from the schema."""

ASSUMED_LATENCY_S: Final = 5.0
"""Seconds assumed for a call to a model of which no call is known."""


class _ForecastPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JudgeForecast(_ForecastPart):
    """The asks of one judge to one model, of which the model still has to answer `to_put`.

    Tokens and US dollars are of these asks only. `worst_usd` assumes every reply at its cap.
    """

    judge: str
    model: str
    asks: int
    kept: int  # answered by the reply cache
    same: int = Field(description="answered by another ask of the run")
    to_put: int
    input_tokens: int
    output_tokens: int
    expected_usd: float | None = Field(description="null: no price is known")
    worst_usd: float | None
    latency_s: float = Field(description="of one call")
    cached_tokens: int = Field(
        default=0, description="of input_tokens, expected to be in the provider's prompt cache"
    )
    cache_write_tokens: int = Field(
        default=0, description="of input_tokens, expected to be put into that cache"
    )
    saved_usd: float | None = Field(
        default=0.0, description="what that cache saves of expected_usd; null: no price is known"
    )


class LimitForecast(_ForecastPart):
    """One limit on spending, with what is spent already and what the run would add.

    `fits` says whether the expected amount fits under the limit; for a batch, whether the worst
    case does, as a batch reserves the worst case in advance.
    """

    limit: str  # its name in [limits]
    allows: float  # dollars or calls, as the limit says
    spent: float
    expected: float | None
    worst: float | None
    fits: bool | None = Field(description="null: no price is known")


class RunForecast(_ForecastPart):
    """The forecast of a run, as `assizes plan` prints it."""

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
    options: tuple[CostOption, ...] = Field(
        default=(), description="what the run would cost by other choices, as if no reply were kept"
    )
    option_cases: int | None = Field(
        default=None, description="cases that `options` are scaled up from; null: no options"
    )
    anchors: RunForecast | None = Field(
        default=None, description="the run over [anchors] beside it, not in the figures above"
    )
    canaries: RunForecast | None = Field(
        default=None, description="the run over the canaries of the anchors, not in these figures"
    )


class PastReplies(NamedTuple):
    """The replies of earlier runs to one `AskGroup`."""

    replies: int
    tokens: float  # mean of a reply
    latency_s: float  # mean of a call


class Spendings(NamedTuple):
    """What the ledger has for the run, and for the present day over all runs."""

    run: Account
    day: Account


@dataclass(frozen=True)
class ForecastInputs:
    """What a forecast is computed from."""

    config: RunConfig
    models: Mapping[str, Model]  # by name
    past: Mapping[AskGroup, PastReplies]  # replies of earlier runs
    scale: float = 1.0  # cases due / cases counted; above 1 for a sample
    # Judge, stronger model of a cascade -> share of the cases that it is expected to judge, 0..1.
    shares: Mapping[tuple[str, str], float] = field(default_factory=dict)
    # Model -> the fewest asks of a batch; without a model that has none, or where no batch is asked.
    batched: Mapping[str, int] = field(default_factory=dict)


class _Tokens(NamedTuple):
    """The tokens of some asks, and the most that they could be."""

    sent: float
    written: float
    cached: float  # of `sent`, in the provider's prompt cache
    to_cache: float  # of `sent`, put there
    max_sent: float
    max_written: float


class ForecastFigures:
    """The figures of a forecast from the counted asks; `judges`: one forecast a judge and model."""

    def __init__(self, inputs: ForecastInputs, tallies: Mapping[AskGroup, AskTally]) -> None:
        self._inputs = inputs
        self._tallies = {group: tallies[group] for group in sorted(tallies)}
        pairs = dict.fromkeys((group.judge, group.model) for group in self._tallies)
        self.judges = tuple(self._judge(*pair) for pair in pairs)

    def minutes(self) -> float | None:
        """Minutes that the run would take at its rate limits; `None` for a batch."""
        if self._inputs.config.runner.batch:  # only the provider decides how long it takes
            return None
        limits = self._inputs.config.limits
        # Calls of the offline model take no time.
        called = [forecast for forecast in self.judges if not self._is_offline(forecast.model)]
        seconds = [
            sum(forecast.to_put * forecast.latency_s for forecast in called) / limits.max_in_flight
        ]
        # Rate limits hold for each model by itself; the slowest of all limits decides.
        for name in {forecast.model for forecast in called}:
            own = [forecast for forecast in called if forecast.model == name]
            asks = sum(forecast.to_put for forecast in own)
            tokens = sum(forecast.input_tokens + forecast.output_tokens for forecast in own)
            seconds.append(60 * asks / (limits.requests_per_minute or math.inf))  # None: no limit
            seconds.append(60 * tokens / (limits.tokens_per_minute or math.inf))
        return round(max(seconds) / 60, 2)

    def assumptions(self) -> Iterator[str]:
        """One sentence for each number that was not known and had to be assumed."""
        to_put = {group: tally for group, tally in self._tallies.items() if tally.to_put}
        asked = {group.model for group in to_put if not self._is_offline(group.model)}
        unsized = {
            group.judge
            for group in to_put
            if group.model in asked and not self._known_reply_tokens(group)
        }
        if unsized:
            names = ", ".join(sorted(unsized))
            yield (
                f"no reply is known of {names}: {TEXT_TOKENS} output tokens are assumed for each "
                "text in one"
            )
        if timeless := [name for name in sorted(asked) if self._mean_latency_s(name) is None]:
            names = ", ".join(timeless)
            yield f"a call takes {ASSUMED_LATENCY_S:g} s: none of {names} is known"
        for name in sorted(asked):
            if self._inputs.models[name].price is None:
                yield f'no price is known for {name}: give it in [limits.prices."{name}"]'
        if cached := sum(forecast.cached_tokens for forecast in self.judges):
            saved = total(forecast.saved_usd for forecast in self.judges)
            yield (
                f"{cached:,} tokens in come from the provider's prompt cache"
                f"{'' if saved is None else f', which saves {saved:.4f} USD'}: each text of a judge is "
                "put there once, and all later asks find it; a batch may find less of it"
            )
        yield from self._unforeseen(to_put)

    def _unforeseen(self, to_put: Mapping[AskGroup, AskTally]) -> Iterator[str]:
        """One sentence for each share of asks that no reply was there to foresee."""
        for (judge, name), share in sorted(self._inputs.shares.items()):
            yield (
                f"{judge}: {name} is asked about {share:.1%} of the cases, as [judge.cascade] says"
            )
        without_rule = Counter[str]()
        for group, tally in to_put.items():
            without_rule[group.judge] += tally.without_rule
        for judge, times in sorted((+without_rule).items()):  # `+` drops those with 0
            yield (
                f"plain rules cannot answer {times} asks of {judge}: what it asks after them is "
                "not counted"
            )

    def _judge(self, judge: str, name: str) -> JudgeForecast:
        """The forecast of one judge with one model, over all rounds."""
        groups = [group for group in self._tallies if group[:2] == (judge, name)]  # all rounds
        tallies = [self._tallies[group] for group in groups]
        scale = self._inputs.scale * self._inputs.shares.get((judge, name), 1.0)
        # What is too few for a batch, or goes to a model without batches, has the full price.
        in_batch = [group for group in groups if self._is_batched(group)]
        single = [group for group in groups if group not in in_batch]
        parts = [
            (self._tokens(some, scale, name), batch)
            for some, batch in ((single, False), (in_batch, True))
            if some
        ]
        sums = _Tokens(*map(math.fsum, zip(*(tokens for tokens, _ in parts), strict=True)))
        expected_usd = total(
            self._usd(name, own.sent, own.written, own.cached, own.to_cache, batch=batch)
            for own, batch in parts
        )
        uncached_usd = total(
            self._usd(name, own.sent, own.written, batch=batch) for own, batch in parts
        )
        mean_s = self._mean_latency_s(name)
        latency_s = ASSUMED_LATENCY_S if mean_s is None else round(mean_s, 3)
        return JudgeForecast(
            judge=judge,
            model=name,
            asks=round(scale * sum(tally.asks for tally in tallies)),
            kept=round(scale * sum(tally.cached for tally in tallies)),
            same=round(scale * sum(tally.same for tally in tallies)),
            to_put=round(scale * sum(tally.to_put for tally in tallies)),
            input_tokens=round(sums.sent),
            output_tokens=round(sums.written),
            expected_usd=expected_usd,
            worst_usd=total(self._worst_usd(name, own, batch=batch) for own, batch in parts),
            cached_tokens=round(sums.cached),
            cache_write_tokens=round(sums.to_cache),
            saved_usd=None
            if uncached_usd is None
            else round(uncached_usd - (expected_usd or 0), 6),
            latency_s=0.0 if self._is_offline(name) else latency_s,
        )

    def _tokens(self, groups: Sequence[AskGroup], scale: float, name: str) -> _Tokens:
        """The tokens of the asks of some rounds of one judge to one model."""
        tallies, whole = [self._tallies[group] for group in groups], self._inputs.scale
        # Real prompt tokens divided by the estimate of the model, from the cached replies.
        known, ratio = self._of_model(name), 1.0
        estimate = sum(tally.estimated_input_tokens for tally in known)
        if estimate and sum(tally.metered for tally in known) >= MIN_KNOWN_REPLIES:
            ratio = sum(tally.metered_input_tokens for tally in known) / estimate
        sent = scale * ratio * sum(tally.input_tokens for tally in tallies)
        written = scale * sum(
            tally.output_tokens if tokens is None else tally.to_put * tokens
            for tally, tokens in zip(tallies, map(self._known_reply_tokens, groups), strict=True)
        )
        # Each marked text is put into the provider's cache once, whatever the number of cases.
        to_cache = min(sent, ratio * sum(tally.new_marked_tokens for tally in tallies))
        marked = min(sent, scale * ratio * sum(tally.marked_tokens for tally in tallies))
        return _Tokens(
            sent,
            written,
            cached=max(0.0, marked - to_cache),
            to_cache=to_cache,
            max_sent=max(sent, whole * sum(tally.max_input_tokens for tally in tallies)),
            max_written=whole * sum(tally.max_output_tokens for tally in tallies),
        )

    def _is_batched(self, group: AskGroup) -> bool:
        """Whether the asks of a round to a model are enough for a batch."""
        least = self._inputs.batched.get(group.model)
        if least is None:
            return False
        of_round = [key for key in self._tallies if key[1:] == group[1:]]
        shares = self._inputs.shares
        asks = math.fsum(
            self._tallies[key].to_put * shares.get((key.judge, key.model), 1.0) for key in of_round
        )
        return self._inputs.scale * asks >= least

    def _of_model(self, name: str) -> list[AskTally]:
        return [tally for group, tally in self._tallies.items() if group.model == name]

    def _known_reply_tokens(self, group: AskGroup) -> float | None:
        """Mean tokens of the cached replies, else of those of earlier runs; `None` with too few."""
        tally, past = self._tallies[group], self._inputs.past.get(group)
        if tally.metered >= MIN_KNOWN_REPLIES:
            return tally.metered_output_tokens / tally.metered
        return past.tokens if past is not None and past.replies >= MIN_KNOWN_REPLIES else None

    def _mean_latency_s(self, name: str) -> float | None:
        """Mean seconds of the known calls of a model, cached or earlier; `None` with too few."""
        tallies = self._of_model(name)
        past = [past for group, past in self._inputs.past.items() if group.model == name]
        calls = sum(tally.metered for tally in tallies) + sum(earlier.replies for earlier in past)
        seconds = sum(tally.metered_ms for tally in tallies) / 1000
        seconds += sum(earlier.replies * earlier.latency_s for earlier in past)
        return seconds / calls if calls >= MIN_KNOWN_REPLIES else None

    def _usd(self, name: str, *tokens: float, batch: bool) -> float | None:
        """The cost of so many tokens in, out, in the provider's cache, and put there."""
        price = self._inputs.models[name].price
        if price is None:
            return None
        return round(price.cost_usd(*map(math.ceil, tokens), batch=batch), 6)

    def _worst_usd(self, name: str, tokens: _Tokens, *, batch: bool) -> float | None:
        price = self._inputs.models[name].price
        if price is None:
            return None
        most = math.ceil(tokens.max_sent), math.ceil(tokens.max_written)
        return round(price.worst_usd(*most, batch=batch), 6)

    def _is_offline(self, name: str) -> bool:
        return self._inputs.models[name].provider == OFFLINE_PROVIDER


def spending_limits(
    config: RunConfig, usd: tuple[float | None, float | None], calls: int, spent: Spendings
) -> Iterator[LimitForecast]:
    """Every limit that is set, with what is spent and what the run would add.

    `usd` are the expected dollars and those in the worst case, `None` where a price is unknown;
    `calls` are the calls of models that the run would make.
    """
    limits = config.limits
    for name, allows, before, (expected, worst) in (
        ("budget_usd", limits.budget_usd, spent.run.usd, usd),
        ("budget_usd_per_day", limits.budget_usd_per_day, spent.day.usd, usd),
        ("max_asks", limits.max_asks, spent.run.calls, (calls, calls)),
        ("max_asks_per_day", limits.max_asks_per_day, spent.day.calls, (calls, calls)),
    ):
        if allows is not None:
            # A batch reserves its worst case in advance, so this must fit under the limit.
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
    """The sum of the values; `None` if any value is `None`."""
    known = list(values)
    return None if None in known else round(math.fsum(filter(None, known)), 6)
