"""The tools that need leave: forecast and start a run, store a label, promote cases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from assizes.deployments.agents import parameters
from assizes.deployments.agents.answers import ToolAnswer, shortened
from assizes.deployments.agents.run_processes import RunEnd
from assizes.deployments.agents.workspace import Workspace
from assizes.deployments.commands.suites.promote import PromoteOptions, promote
from assizes.deployments.settings import prepare_environment, read_config
from assizes.deployments.web.people_schemas import LabelBody
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, OverBudget
from assizes.judge.rows import COMPLETE
from assizes.tasks.reports.formatting import money, plural
from assizes.tasks.suites.promotion import CaseChoice

if TYPE_CHECKING:
    from assizes.judge.forecast.run_forecast import RunForecast

_BY: Final = "an assistant"
"""Who promotes, in the provenance of a case."""


def plan_run(workspace: Workspace, wanted: parameters.PlanRun) -> ToolAnswer:
    """What a run would ask and cost."""
    forecast = _forecast(_config(workspace, wanted), wanted)
    head = [f"forecast of run {forecast.run_id}; nothing was asked or written"]
    return ToolAnswer([*head, _cost_line(forecast)], _forecast_items(forecast), "forecast")


def start_run(workspace: Workspace, wanted: parameters.StartRun) -> ToolAnswer:
    """Forecast a run, and start it once that is confirmed."""
    config = _config(workspace, wanted)
    forecast = _forecast(config, wanted)
    _check_budget(config, forecast, wanted.budget_usd)
    run_id, items = forecast.run_id, _forecast_items(forecast)
    if forecast.status == COMPLETE:
        head = [f"run {run_id} is complete in the store; nothing was started, read_run shows it"]
        return ToolAnswer(head, items, "forecast")
    if wanted.confirm is None:
        again = f'once a person agrees, the same call with confirm="{run_id}" starts it'
        head = ["nothing was started yet", _cost_line(forecast), again]
        return ToolAnswer(head, items, "forecast")
    if wanted.confirm != run_id:
        raise ConfigurationError(
            f"confirm: the run would be {run_id}; read its forecast (without confirm), and "
            "give this id"
        )
    workspace.runs.start(run_id, _arguments(workspace, wanted))
    end = workspace.runs.wait(run_id)
    if end is None:
        head = [f"run {run_id} is at work; read_run says how far, `assizes stop {run_id}` stops it"]
        return ToolAnswer(head, items, "forecast")
    return _ended(workspace, run_id, end)


def _config(workspace: Workspace, wanted: parameters.PlanRun) -> RunConfig:
    settings: dict[str, dict[str, object]] = {
        "transcripts": {"limit": wanted.limit},
        "store": {"uri": workspace.store},
    }
    return read_config(workspace.file, (), settings)


def _forecast(config: RunConfig, wanted: parameters.PlanRun) -> RunForecast:
    prepare_environment()
    from assizes.tasks.forecasts.run_forecast import forecast_with_anchors

    return asyncio.run(forecast_with_anchors(config, wanted.day))


def _cost_line(forecast: RunForecast) -> str:
    due = plural(forecast.transcripts["due"], "case")
    return (
        f"{due}, {plural(forecast.to_put, 'ask')} to a model, cost: {money(forecast.expected_usd)} "
        f"expected, {money(forecast.worst_usd)} at the most"
    )


def _forecast_items(forecast: RunForecast) -> list[dict[str, Any]]:
    names = (
        *("status", "transcripts", "asks", "kept", "same", "to_put", "input_tokens"),
        *("output_tokens", "expected_usd", "worst_usd", "minutes"),
    )
    return [
        {name: getattr(forecast, name) for name in names},
        *({"judge": judge.model_dump()} for judge in forecast.judges),
        *({"limit": limit.model_dump()} for limit in forecast.limits),
        *({"assumed": shortened(line, 300)} for line in forecast.assumptions),
    ]


def _check_budget(config: RunConfig, forecast: RunForecast, budget_usd: float) -> None:
    configured = config.limits.budget_usd
    if configured is not None and budget_usd > configured:
        raise ConfigurationError(
            f"budget_usd {budget_usd:g}: the configuration allows at most {configured:g} "
            "([limits] budget_usd)"
        )
    if forecast.expected_usd is not None and forecast.expected_usd > budget_usd:
        raise OverBudget(
            f"budget_usd {budget_usd:g}: the forecast expects {money(forecast.expected_usd)}; give "
            "more, or fewer cases with limit"
        )


def _arguments(workspace: Workspace, wanted: parameters.StartRun) -> Sequence[str]:
    """The arguments of `assizes run`; the configuration says all that an assistant may not."""
    options = {
        "--config": workspace.file,
        "--limit": wanted.limit,
        "--date": wanted.day,
        "--set": f"limits.budget_usd={wanted.budget_usd}",
    }
    given = [text for name, value in options.items() if value for text in (name, str(value))]
    if workspace.store is not None:
        given += ["--set", f"store.uri={workspace.store}"]
    return given


def _ended(workspace: Workspace, run_id: str, end: RunEnd) -> ToolAnswer:
    if end.outcome is None:
        raise ConfigurationError(end.fault or f"the run ended with exit code {end.code}")
    outcome = end.outcome
    items = [{"conclusion": outcome["conclusion"], "reasons": outcome["reasons"][:10]}]
    head = [f"run {run_id} has ended with exit code {end.code}; read_run says more"]
    links = workspace.page(f"runs/{run_id}")
    return ToolAnswer(head, items, "outcome", links=links)


def add_label(workspace: Workspace, wanted: parameters.AddLabel) -> ToolAnswer:
    """Store the label of a person."""
    fields = wanted.model_dump(include={"run", "repetition", "metric", "value", "rater", "note"})
    try:
        body = LabelBody(case_id=wanted.case, **fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        why = fault["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"add_label: {place or 'value'}: {why}") from None
    row, is_new = workspace.reader.people.add_label(body)
    names = ("label_id", "run_id", "case_id", "metric", "rater", "value", "supersedes")
    head = ["the label is stored" if is_new else "this label was stored before"]
    links = workspace.case_links(row["run_id"], row["case_id"])
    return ToolAnswer(head, [{name: row[name] for name in names}], "label", links=links)


def promote_cases(workspace: Workspace, wanted: parameters.PromoteCases) -> ToolAnswer:
    """Write cases of a run into a suite."""
    causes = () if wanted.cause is None else (wanted.cause,)
    choice = CaseChoice(causes=causes, case_ids=tuple(wanted.cases))
    if choice.is_empty:
        raise ConfigurationError("promote_cases: no case is chosen; give cases (ids) or cause")
    folder = workspace.suites / wanted.suite
    options = PromoteOptions(wanted.run, choice, str(folder), _BY, wanted.dry_run)
    promoted = promote(options, workspace.config)
    added = plural(len(promoted.promotion.added), "case")
    verb = "would be added to" if wanted.dry_run else "added to"
    head = [f"{added} {verb} suite {wanted.suite} in {folder}"]
    return ToolAnswer(head, [promoted.document(dry_run=wanted.dry_run)], "suite")
