"""`assizes plan`: forecast the asks, the cost and the time of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_table
from assizes.deployments.commands.run import progress_bar
from assizes.deployments.settings import prepare_environment
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE

if TYPE_CHECKING:
    from assizes.judge.forecast.run_forecast import JudgeForecast, LimitForecast, RunForecast


def plan_and_print(config: RunConfig, on: date | None, *, as_json: bool) -> None:
    """Forecast a run and print the forecast; `on` is the day for date placeholders in the URI.

    Raises:
        AssizesError: the run itself could not begin either.
    """
    prepare_environment()
    from assizes.tasks.forecasts.run_forecast import forecast_with_anchors

    with progress_bar():
        forecast = asyncio.run(forecast_with_anchors(config, on))  # calls no model, writes nothing
    if as_json:
        print_json(forecast.model_dump(mode="json"))
    else:
        _print(forecast, config)


def _print(forecast: RunForecast, config: RunConfig) -> None:
    counts = ", ".join(f"{name} {count}" for name, count in forecast.transcripts.items())
    print_line(f"{forecast.run_id}: {_state(forecast)}")
    print_line(f"transcripts: {counts}")
    numbers = ("#asks", "#cached", "#to send", "#tokens in", "#out", "#USD", "#worst")
    print_table("", ("judge", "model", *numbers), [_row(judge) for judge in forecast.judges])
    print_lines(_totals(forecast, replayed=config.cache.use == "replay_only"))
    if forecast.anchors is not None:  # they have a budget of their own and no cached reply
        triggers = ", ".join(config.anchors.triggers)
        when = f"with triggers {triggers}" if triggers else "with no trigger"
        volume = _volume(forecast.anchors)
        print_line(f"anchors, in a run of their own {when} and with a new judge: {volume}")
    if forecast.canaries is not None:
        print_line(f"canaries, with the anchors: {_volume(forecast.canaries)}")
    print_lines(_limit(limit, batch=config.runner.batch) for limit in forecast.limits)
    print_lines(f"assumed: {line}" for line in forecast.assumptions)
    _print_options(forecast)


def _print_options(forecast: RunForecast) -> None:
    if not forecast.options:
        return
    numbers = ("#calls", "#tokens in", "#cached", "#out", "#USD")
    rows = [
        (
            option.what,
            *(f"{option.calls:,}", f"{option.input_tokens:,}", f"{option.cached_tokens:,}"),
            *(f"{option.output_tokens:,}", _usd(option.expected_usd)),
        )
        for option in forecast.options
    ]
    due = forecast.transcripts["due"]
    few = forecast.option_cases is not None and forecast.option_cases < due
    scaled = f", scaled up from {forecast.option_cases} cases" if few else ""
    print_table(
        f"what it would cost otherwise, with no reply kept{scaled}", ("choice", *numbers), rows
    )


def _state(forecast: RunForecast) -> str:
    if forecast.status is None:
        return "a new run"
    if forecast.status == COMPLETE:
        return "complete in the store; running it again asks nothing"
    return f"{forecast.status} in the store; running it again goes on with it"


def _row(judge: JudgeForecast) -> tuple[str, ...]:
    counts = (judge.asks, judge.kept, judge.to_put, judge.input_tokens, judge.output_tokens)
    dollars = (_usd(judge.expected_usd), _usd(judge.worst_usd))
    return (judge.judge, judge.model, *(f"{count:,}" for count in counts), *dollars)


def _totals(forecast: RunForecast, *, replayed: bool) -> Iterator[str]:
    if forecast.sampled is not None:  # a large run is counted by a sample of its cases
        due = forecast.transcripts["due"]
        yield f"scaled up from a sample of {forecast.sampled:,} of {due:,} cases"
    known = f"{forecast.kept:,} have a reply in the cache, {forecast.same:,} repeat another ask"
    yield f"asks: {forecast.asks:,}; {known}, {forecast.to_put:,} go to the model"
    if replayed:
        yield f"replay_only: nothing is asked; the {forecast.to_put:,} asks without a reply will fail"
    yield f"tokens: {forecast.input_tokens:,} in, {forecast.output_tokens:,} out"
    yield f"cost: {_cost(forecast)}"
    minutes = forecast.minutes
    duration = "as long as the provider's batches" if minutes is None else f"{minutes:g} min"
    yield f"time: {duration}, without retries"


def _volume(forecast: RunForecast) -> str:
    due = forecast.transcripts["due"]
    return f"{due:,} cases, {forecast.to_put:,} asks to send, {_cost(forecast)}"


def _cost(forecast: RunForecast) -> str:
    return f"{_usd(forecast.expected_usd)} USD expected, {_usd(forecast.worst_usd)} at the most"


def _limit(forecast: LimitForecast, *, batch: bool) -> str:
    text = f"[limits] {forecast.limit} = {forecast.allows:g}: {forecast.spent:g} spent"
    if forecast.fits is None or forecast.expected is None:  # e.g. a model without a price
        return f"{text}, what this run adds is not known"
    added = f"{forecast.expected:g} more expected"
    if batch and forecast.worst is not None:
        added += f", up to {forecast.worst:g} set aside for its batches"
    end = "a batch may not be handed in" if batch else "the run would stop on the way"
    return f"{text}, {added}: {'fits' if forecast.fits else f'DOES NOT FIT: {end}'}"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
