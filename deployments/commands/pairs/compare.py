"""`assizes compare --pairwise` and `assizes rank`: pairs are judged, counted and printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assizes.deployments.commands import output
from assizes.deployments.commands.show import compare_and_print, comparison_and_code
from assizes.deployments.settings import read_optional_config
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.pairs.result import PairwisePlan, PairwiseRequest, PairwiseResult
from assizes.tasks.store import existing_store


@dataclass(frozen=True, slots=True)
class PairOutput:
    """What is printed of pairs."""

    is_dry: bool  # only the plan
    as_json: bool
    verbose: bool


def compare_pairs_and_print(
    sides: tuple[str, str],
    asked: Mapping[str, Any],  # of the command line, by field of `PairwiseRequest`
    limits: Mapping[str, Any],  # of the command line, by field of `ComparisonConfig`
    file: Path | None,
    store: str | None,
    wanted: PairOutput,
) -> int:
    """Compare two runs by scores and by pairs; returns a code of `EXIT_CODES`, by the scores.

    Raises:
        ConfigurationError: an option, the rubric or the model cannot be used.
        OverBudget: the budget was spent.
        UnknownRun: the store has no such run.
    """
    config, request = _config(file, store), _request(sides, asked)
    if wanted.is_dry:
        return _print_plan(config, request, wanted)
    result = _result(config, request, wanted, ranks=False)
    if not wanted.as_json:
        output.print_lines(result.lines())
        return compare_and_print(sides, limits, file, store, as_json=False)
    comparison, code = comparison_and_code(sides, limits, file, store)
    document = {**comparison.model_dump(mode="json"), "pairwise": result.model_dump(mode="json")}
    output.print_json(document)
    return code


def rank_and_print(
    runs: tuple[str, ...],
    asked: Mapping[str, Any],
    file: Path | None,
    store: str | None,
    wanted: PairOutput,
) -> int:
    """Rank runs by their pairs; returns 0.

    Raises:
        ConfigurationError: an option, the rubric or the model cannot be used.
        OverBudget: the budget was spent.
        UnknownRun: the store has no such run.
    """
    config, request = _config(file, store), _request(runs, asked)
    if wanted.is_dry:
        return _print_plan(config, request, wanted)
    result = _result(config, request, wanted, ranks=True)
    if wanted.as_json:
        output.print_json(result.model_dump(mode="json"))
    else:
        output.print_lines(result.lines())
    return 0


def _config(file: Path | None, store: str | None) -> RunConfig:
    config = read_optional_config(file)
    return config if store is None else config.model_copy(update={"store": config.store.at(store)})


def _request(runs: tuple[str, ...], asked: Mapping[str, Any]) -> PairwiseRequest:
    if len(runs) < 2:
        raise ConfigurationError("one run alone has nothing to be compared with; name two or more")
    try:
        return PairwiseRequest.model_validate({**asked, "runs": runs})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = {"budget_usd": "--budget", "limit": "--pairs"}.get(str(fault["loc"][0]), "runs")
        raise ConfigurationError(f"{option}: {fault['msg']} (given {fault['input']!r})") from None


def _print_plan(config: RunConfig, request: PairwiseRequest, wanted: PairOutput) -> int:
    plan = _plan(config, request)
    if wanted.as_json:
        output.print_json(plan.model_dump(mode="json"))
    else:
        output.print_line(plan.sentence())
    return 0


def _plan(config: RunConfig, request: PairwiseRequest) -> PairwisePlan:
    from assizes.tasks.context.pair_judging import PairJudging
    from assizes.tasks.judge_pairs import plan_pairs

    with existing_store(config.store) as store:
        return plan_pairs(PairJudging(store, config, request))


def _result(
    config: RunConfig, request: PairwiseRequest, wanted: PairOutput, *, ranks: bool
) -> PairwiseResult:
    """The result of the stored verdicts where there is one for every pair, else of a flow."""
    from assizes.tasks.context.pair_judging import PairJudging

    with existing_store(config.store) as store:
        judging = PairJudging(store, config, request)
        if judging.is_complete:
            from assizes.tasks.judge_pairs import stored_result

            return stored_result(judging, ranks=ranks)
    from assizes.deployments.commands.run import find_server, progress_bar, run_flows

    find_server(verbose=wanted.verbose)

    async def compare() -> PairwiseResult:
        from assizes.flows.pairs import compare_pairs  # imports Prefect: after `find_server`

        state = await compare_pairs(config, request, ranks=ranks, return_state=True)
        result: Any = await state.aresult(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result
        return PairwiseResult.model_validate(result)

    with progress_bar():
        return run_flows(compare())
