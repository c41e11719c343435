"""`assizes align`: a better rubric from labels, written for a person to edit, then put in place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assizes.deployments.commands import output
from assizes.judge.alignment.requested import edited_rubric
from assizes.judge.alignment.result import AlignmentPlan, AlignmentRequest, AlignmentResult
from assizes.judge.alignment.rubric_files import RubricFile, rubric_file
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rubrics.guidance import AlignmentRecord
from assizes.tasks.store import existing_store

FOLDER: Final = "rubrics"
"""The folder for a rubric where the configuration names none."""


@dataclass(frozen=True, slots=True)
class AlignOutput:
    """What becomes of the result."""

    write: Path | None  # a new file for the proposal
    is_applied: bool  # the file of the request becomes the rubric
    is_dry: bool  # only the plan is printed
    as_json: bool
    verbose: bool


def align_and_print(config: RunConfig, request: AlignmentRequest, wanted: AlignOutput) -> int:
    """Align a judge and print the verdict; returns 0 if the new rubric is better, else 1.

    Raises:
        ConfigurationError: labels, metric, model or a file cannot be used.
        Inconclusive: there are too few labels, or too few replies.
        OverBudget: the budget was spent.
        UnknownRun: the store has no such run.
    """
    if wanted.is_dry:
        _print_plan(asyncio.run(_planned(config, request)), as_json=wanted.as_json)
        return 0
    if wanted.write is not None and wanted.write.exists():  # before anything is paid for
        raise ConfigurationError(f"--write {str(wanted.write)!r} is there already; name a new file")
    result = _aligned(config, request, verbose=wanted.verbose)
    written = None
    if result.is_better and wanted.write is not None:
        _write(wanted.write, result.text)
        written = wanted.write
    elif result.is_better and wanted.is_applied:
        written = _put_in_place(config, request, result)
    if wanted.as_json:
        output.print_json(result.model_dump(mode="json"))
        return 0 if result.is_better else 1
    _print_result(config, result, written, wanted)
    return 0 if result.is_better else 1


async def _planned(config: RunConfig, request: AlignmentRequest) -> AlignmentPlan:
    from assizes.tasks.align import plan_alignment
    from assizes.tasks.context.alignment import open_alignment

    edited_rubric(request)
    with existing_store(config.store) as store:
        async with open_alignment(config, request, store) as alignment:
            return plan_alignment(alignment)


def _aligned(config: RunConfig, request: AlignmentRequest, *, verbose: bool) -> AlignmentResult:
    from assizes.deployments.commands.run import find_server, progress_bar, run_flows

    find_server(verbose=verbose)

    async def align() -> AlignmentResult:
        from assizes.flows.align import align_judge  # imports Prefect: after `find_server`

        state = await align_judge(config, request, return_state=True)
        result: Any = await state.aresult(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result
        return AlignmentResult.model_validate(result)

    with progress_bar():
        return run_flows(align())


def _print_plan(plan: AlignmentPlan, *, as_json: bool) -> None:
    if as_json:
        output.print_json(plan.model_dump(mode="json"))
    else:
        output.print_line(plan.sentence())


def _print_result(
    config: RunConfig, result: AlignmentResult, written: Path | None, wanted: AlignOutput
) -> None:
    output.print_lines(result.lines())
    if result.diff:
        output.print_line(result.diff)
    output.print_line(f"spent: {result.cost_usd:.4f} USD")
    if not result.is_better:
        output.print_line("nothing is written")
    elif written is None:
        output.print_line("nothing is written: --write FILE keeps the rubric for you to edit")
    elif not wanted.is_applied:
        output.print_line(f"{written}: edit it, then `assizes align ... --apply {written}`")
    else:
        output.print_line(f"{written}: rubric {result.new_hash} of {result.metric} from now on")
        if not any(
            Path(folder).resolve() == written.parent.resolve() for folder in config.judge.rubrics
        ):
            output.print_line(f'set [judge] rubrics = ["{written.parent}"], so that runs read it')


def _put_in_place(config: RunConfig, request: AlignmentRequest, result: AlignmentResult) -> Path:
    """Make the rubric of a result the one of its metric; returns the file that holds it."""
    base = rubric_file(request.metric, config.judge.rubrics)
    former = base.table.alignment
    new = RubricFile(request.metric, result.text, None)
    record = new.table.alignment
    if former is not None and record is not None:
        # It still takes the place of what the former version took the place of.
        new = new.with_record(_with_parent(record, former.parent))
    folder = Path(config.judge.rubrics[0] if config.judge.rubrics else FOLDER)
    path = base.path or folder / f"{request.metric}.toml"
    if base.path is None and path.exists():
        raise ConfigurationError(f"{path} is there already, and no rubric of {request.metric!r}")
    _write(path, new.text)
    return path


def _with_parent(record: AlignmentRecord, parent: str) -> AlignmentRecord:
    return record.model_copy(update={"parent": parent})


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)  # readers see the old text or the new one
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
