"""`assizes plan`: what a run would ask, cost and take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.deployments.commands.running.run import progress
from assizes.deployments.settings import prepare_environment
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE

if TYPE_CHECKING:
    from assizes.judge.forecast.run_forecast import JudgeForecast, LimitForecast, RunForecast


def plan_and_print(config: RunConfig, on: date | None, *, as_json: bool) -> int:
    """Foresee a run and print it; nothing is asked and nothing is written.

    Raises:
        AssizesError: when the run could not begin either.
    """
    prepare_environment()
    from assizes.tasks.forecasts.anchor_forecast import forecast_with_anchors

    with progress():
        found = asyncio.run(forecast_with_anchors(config, on))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return 0
    _print(found, config)
    return 0


def _print(found: RunForecast, config: RunConfig) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in found.transcripts.items())
    print_line(f"{found.run_id}: {_state(found)}")
    print_line(f"transcripts: {counts}")
    columns = (
        "judge",
        "model",
        "#asks",
        "#kept",
        "#to put",
        "#tokens in",
        "#out",
        "#USD",
        "#worst",
    )
    print_table("", columns, [_row(one) for one in found.judges])
    for line in _totals(found, replayed=config.cache.use == "replay_only"):
        print_line(line)
    if found.anchors is not None:
        print_line(_anchors(found.anchors, config.anchors.triggers))
    if found.canaries is not None:
        print_line(_canaries(found.canaries))
    for limit in found.limits:
        print_line(_limit(limit, batch=config.runner.batch))
    for line in found.assumptions:
        print_line(f"assumed: {line}")


def _state(found: RunForecast) -> str:
    if found.status is None:
        return "a new run"
    if found.status == COMPLETE:
        return "complete in the store; running it again asks nothing"
    return f"{found.status} in the store; running it again goes on with it"


def _row(one: JudgeForecast) -> tuple[object, ...]:
    counts = (one.asks, one.kept, one.to_put, one.input_tokens, one.output_tokens)
    dollars = (_usd(one.expected_usd), _usd(one.worst_usd))
    return (one.judge, one.model, *(f"{count:,}" for count in counts), *dollars)


def _totals(found: RunForecast, *, replayed: bool) -> Iterator[str]:
    if found.sampled is not None:
        due = found.transcripts["due"]
        yield f"scaled up from a sample of {found.sampled:,} of {due:,} cases"
    answered = f"{found.kept:,} answered by kept replies, {found.same:,} by the same ask in the run"
    yield f"asks: {found.asks:,}, {answered}, {found.to_put:,} to put"
    if replayed:
        yield f"replay_only: nothing is asked; the {found.to_put:,} asks to put will fail"
    tokens = f"{found.input_tokens:,} in, {found.output_tokens:,} out"
    yield f"tokens: {tokens}"
    yield f"cost: {_usd(found.expected_usd)} USD expected, {_usd(found.worst_usd)} at the most"
    took = (
        "as long as the provider's batches" if found.minutes is None else f"{found.minutes:g} min"
    )
    yield f"time: {took}, without retries"


def _anchors(found: RunForecast, triggers: Sequence[str]) -> str:
    """The anchors have a run and a budget of their own; they are always asked anew."""
    when = f"with triggers {', '.join(triggers)}" if triggers else "with no trigger"
    dollars = f"{_usd(found.expected_usd)} USD expected, {_usd(found.worst_usd)} at the most"
    return (
        f"anchors, in a run of their own {when} and with a new judge: {found.transcripts['due']:,} "
        f"cases, {found.to_put:,} asks to put, {dollars}"
    )


def _canaries(found: RunForecast) -> str:
    dollars = f"{_usd(found.expected_usd)} USD expected, {_usd(found.worst_usd)} at the most"
    count = found.transcripts["due"]
    return f"canaries, with the anchors: {count:,} cases, {found.to_put:,} asks to put, {dollars}"


def _limit(one: LimitForecast, *, batch: bool) -> str:
    said = f"[limits] {one.limit} = {one.allows:g}: {one.spent:g} spent"
    if one.fits is None or one.expected is None:
        return f"{said}, what this run adds is not known"
    added = f"{one.expected:g} more expected"
    if batch and one.worst is not None:
        added += f", up to {one.worst:g} set aside for its batches"
    end = "a batch may not be handed in" if batch else "the run would stop on the way"
    return f"{said}, {added}: {'fits' if one.fits else f'DOES NOT FIT: {end}'}"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
