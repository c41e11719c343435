"""The forecast of a run, with the forecasts of its anchor run and its canary run."""

from __future__ import annotations

from datetime import date

from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.judge.forecast.run_forecast import RunForecast
from assizes.tasks.forecasts.run_forecast import forecast
from assizes.tasks.runs.anchor_runs import anchor_config
from assizes.tasks.runs.canary_runs import canary_config, likely_canaries


async def forecast_with_anchors(config: RunConfig, day: date | None = None) -> RunForecast:
    """Forecast a run, and beside it the run over its anchors.

    Where the anchors cannot be read, the forecast is made without them, as the run would go on
    without them; an assumption then says why.

    Raises:
        ConfigurationError: the judges, the models or the transcripts of the run cannot be used.
        Inconclusive: the run has nothing to judge.
    """
    run_forecast = await forecast(config, day)
    if config.anchors.uri is None or config.cache.use == "replay_only":
        return run_forecast
    try:
        anchors = await forecast(anchor_config(config))
    except AssizesError as error:
        note = f"the anchors are not counted: {' '.join(str(error).split())}"
        return run_forecast.model_copy(update={"assumptions": (*run_forecast.assumptions, note)})
    run_forecast = run_forecast.model_copy(update={"anchors": anchors})
    return await _with_canaries(run_forecast, config)


async def _with_canaries(run_forecast: RunForecast, config: RunConfig) -> RunForecast:
    """The forecast together with that of the canaries, the attacks that are planted in anchors."""
    settings = config.calibration.model_copy(update={"labels": config.anchors.labels})
    if not settings.canaries or settings.labels is None:
        return run_forecast
    try:
        chosen = likely_canaries(settings)
        if not chosen:
            return run_forecast
        canaries = await forecast(canary_config(anchor_config(config), chosen, config.name))
    except AssizesError as error:
        note = f"the canaries are not counted: {' '.join(str(error).split())}"
        return run_forecast.model_copy(update={"assumptions": (*run_forecast.assumptions, note)})
    return run_forecast.model_copy(update={"canaries": canaries})
