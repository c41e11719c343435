"""What a run would cost otherwise: its metrics apart, in batches, with one model of a cascade, sampled.

All figures are those of a run without kept replies, so that the choices can be compared. They are
scaled up from a few cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.judging import JudgeConfig, MetricSelection
from assizes.judge.forecast.ask_forecast import AskGroup, AskTally
from assizes.judge.forecast.decided import StopEstimate
from assizes.judge.models.model import Model

CONVERSATION: Final = "conversation"
"""The judge whose metrics are asked about together, in one ask."""

OPTION_CASES: Final = 20
"""The most cases from which the options are scaled up."""

SAMPLE_CASES: Final = 385
"""Cases of a random sample whose pass rate is within 5 points of that of all, in 95 of 100 samples:
1.96^2 / (4 x 0.05^2), rounded up."""


class CostOption(BaseModel):
    """What a run would ask and cost by one choice, as if no reply were kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        description="configured, until_decided, until_decided_least, apart, batch, single_calls, "
        "no_provider_cache, first_alone, stronger_alone or sample"
    )
    what: str = Field(description="the choice in words")
    calls: int
    input_tokens: int
    cached_tokens: int = Field(description="of input_tokens, found in the provider's prompt cache")
    output_tokens: int
    expected_usd: float | None = Field(description="null: no price is known")
    low_calls: int | None = Field(
        default=None, description="of until_decided: a tenth of the drawn runs make fewer calls"
    )
    high_calls: int | None = Field(
        default=None, description="of until_decided: a tenth of the drawn runs make more calls"
    )


@dataclass(frozen=True, slots=True)
class Volume:
    """The calls and tokens of one judge with one model."""

    calls: float = 0.0
    input_tokens: float = 0.0
    cached_tokens: float = 0.0
    cache_write_tokens: float = 0.0
    output_tokens: float = 0.0

    def times(self, factor: float) -> Volume:
        """The volume of so many times the cases."""
        return Volume(
            self.calls * factor,
            self.input_tokens * factor,
            self.cached_tokens * factor,
            # Each text is put into the provider's cache once, whatever the number of cases.
            self.cache_write_tokens,
            self.output_tokens * factor,
        )

    def usd(self, model: Model, *, batch: bool) -> float | None:
        """The cost in US dollars; `None` where no price is known."""
        if model.price is None:
            return None
        tokens = (
            *(self.input_tokens, self.output_tokens),
            *(self.cached_tokens, self.cache_write_tokens),
        )
        return model.price.cost_usd(*(math.ceil(number) for number in tokens), batch=batch)


Volumes = Mapping[tuple[str, str], Volume]
"""Volumes by judge and model."""


def volumes(
    tallies: Mapping[AskGroup, AskTally], cases: int, due: int
) -> dict[tuple[str, str], Volume]:
    """The volumes of `due` cases, scaled up from the asks that were counted for `cases`."""
    scale, by_model = due / cases, dict[tuple[str, str], Volume]()
    for (judge, model, _), tally in tallies.items():
        old = by_model.get((judge, model), Volume())
        to_cache = tally.new_marked_tokens
        by_model[judge, model] = Volume(
            old.calls + scale * tally.to_put,
            old.input_tokens + scale * tally.input_tokens,
            old.cached_tokens + max(0.0, scale * tally.marked_tokens - to_cache),
            old.cache_write_tokens + to_cache,
            old.output_tokens + scale * tally.output_tokens,
        )
    return by_model


def apart_configs(config: JudgeConfig, metrics: Sequence[str]) -> list[JudgeConfig]:
    """The settings of judges that each ask about one metric of the conversation alone."""
    options = {name: own for name, own in config.options.items() if name == CONVERSATION}
    common = {"judges": (CONVERSATION,), "options": options, "floors": {}, "cascade": None}
    return [
        config.model_copy(
            update={**common, "metrics": (MetricSelection(metric=metric, weight=1.0),)}
        )
        for metric in metrics
    ]


@dataclass(frozen=True, slots=True)
class DecidedChoice:
    """How far a run goes that stops when it is decided."""

    is_configured: bool
    first_look: float  # share of the cases that is judged before the first look, 0..1
    estimate: StopEstimate | None = None  # `None`: there is no earlier run to estimate from
    source: str = ""  # what the estimate goes by
    calls: tuple[int, int] | None = None  # before the first look, and of all cases; `None`: scaled


@dataclass(frozen=True)
class OptionInputs:
    """What the options are computed from."""

    together: Volumes  # of all judges, a stronger model of a cascade asked about every case
    apart: Volumes | None  # of the judge of the conversation, an ask a metric; `None`: one metric
    models: Mapping[str, Model]  # by name
    shares: Mapping[tuple[str, str], float]  # judge, stronger model -> share of escalated cases
    due: int  # cases
    batch: bool
    # Model -> the fewest asks of a batch; without models whose asks are single calls in any case.
    batched: Mapping[str, int]
    refuses_batch: bool = False  # a model has a provider without batches, so no run asks by batch
    decided: DecidedChoice | None = None  # `None`: the run cannot stop early


def cost_options(inputs: OptionInputs) -> tuple[CostOption, ...]:
    """The choices, the configured one first; empty where no model is paid for a call."""
    if not any(volume.calls for volume in inputs.together.values()):
        return ()
    return tuple(_options(inputs))


def _options(inputs: OptionInputs) -> Iterator[CostOption]:
    configured = _at_shares(inputs, inputs.together)
    yield from _whole_and_decided(inputs, configured)
    if inputs.apart is not None:
        rest = {key: own for key, own in inputs.together.items() if key[0] != CONVERSATION}
        whole = _at_shares(inputs, {**rest, **inputs.apart})
        yield _option(inputs, "apart", "each conversation metric in an ask of its own", whole)
    uncached = {key: _without_cache(volume) for key, volume in configured.items()}
    if inputs.batch:
        other = replace(inputs, batch=False)
        yield _option(other, "single_calls", "single calls in place of batches", configured)
    elif not inputs.refuses_batch and any(model in inputs.batched for _, model in configured):
        other = replace(inputs, batch=True)
        yield _option(other, "batch", "in batches, counted without a prompt cache", uncached)
    if any(volume.cached_tokens for volume in configured.values()):
        yield _option(inputs, "no_provider_cache", "without the provider's prompt cache", uncached)
    if inputs.shares:
        judges = {judge for judge, _ in inputs.shares}
        first = {key: own for key, own in inputs.together.items() if key not in inputs.shares}
        yield _option(inputs, "first_alone", "the first models alone, nothing promised", first)
        stronger = {
            key: own
            for key, own in inputs.together.items()
            if key[0] not in judges or key in inputs.shares
        }
        yield _option(inputs, "stronger_alone", "the stronger model alone", stronger)
    if inputs.due > SAMPLE_CASES:
        part = {key: own.times(SAMPLE_CASES / inputs.due) for key, own in configured.items()}
        what = f"a random sample of {SAMPLE_CASES} cases: the pass rate within 5 points"
        yield _option(inputs, "sample", what, part)


def _whole_and_decided(
    inputs: OptionInputs, configured: Mapping[tuple[str, str], Volume]
) -> Iterator[CostOption]:
    """The run over all its cases, and the same run where it stops when it is decided."""
    decided = inputs.decided
    if decided is None or not decided.is_configured:
        yield _option(inputs, "configured", "as configured", configured)
    else:
        what = "as configured, where every case is judged: the most"
        yield _with_calls(_option(inputs, "configured", what, configured), decided, 1)
    if decided is None:
        return

    def part(name: str, what: str, share: float) -> CostOption:
        volumes_of_part = {key: own.times(share) for key, own in configured.items()}
        return _option(inputs, name, what, volumes_of_part)

    if decided.estimate is not None:
        median, low, high = decided.estimate
        expected = part("until_decided", "", median)
        low_calls, high_calls = (round(expected.calls / median * end) for end in (low, high))
        what = (
            f"until decided, nothing changed: an estimate from {decided.source}, "
            f"{low_calls:,} to {high_calls:,} calls in 8 of 10 drawn runs"
        )
        update = {"what": what, "low_calls": low_calls, "high_calls": high_calls}
        yield expected.model_copy(update=update)
    about = "" if decided.calls is not None else "about "
    what = f"until decided at the first look: {about}the least"
    yield _with_calls(part("until_decided_least", what, decided.first_look), decided, 0)


def _with_calls(option: CostOption, decided: DecidedChoice, which: int) -> CostOption:
    """The option with the exact number of its calls, where it was counted."""
    if decided.calls is None:
        return option
    return option.model_copy(update={"calls": decided.calls[which]})


def _at_shares(inputs: OptionInputs, whole: Volumes) -> dict[tuple[str, str], Volume]:
    return {key: own.times(inputs.shares.get(key, 1.0)) for key, own in whole.items()}


def _without_cache(volume: Volume) -> Volume:
    return replace(volume, cached_tokens=0.0, cache_write_tokens=0.0)


def _option(inputs: OptionInputs, name: str, what: str, chosen: Volumes) -> CostOption:
    calls: dict[str, float] = {}
    for (_, model), own in chosen.items():
        calls[model] = calls.get(model, 0.0) + own.calls
    costs = [
        own.usd(inputs.models[model], batch=inputs.batch and _is_batch(inputs, model, calls[model]))
        for (_, model), own in chosen.items()
    ]
    known = [usd for usd in costs if usd is not None]
    return CostOption(
        name=name,
        what=what,
        calls=round(math.fsum(own.calls for own in chosen.values())),
        input_tokens=round(math.fsum(own.input_tokens for own in chosen.values())),
        cached_tokens=round(math.fsum(own.cached_tokens for own in chosen.values())),
        output_tokens=round(math.fsum(own.output_tokens for own in chosen.values())),
        expected_usd=round(math.fsum(known), 6) if len(known) == len(costs) else None,
    )


def _is_batch(inputs: OptionInputs, model: str, calls: float) -> bool:
    """Whether so many asks to a model go to its batch endpoint, at the price of batches."""
    least = inputs.batched.get(model)
    return least is not None and calls >= least
