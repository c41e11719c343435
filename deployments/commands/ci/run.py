"""`assizes ci`: one run about the commit at hand, compared with the run of the commit before."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from assizes.deployments.commands.ci.outputs import CiFiles, CiOutput, read_output, write_outputs
from assizes.deployments.commands.output import print_json, print_outcome
from assizes.deployments.commands.run import check_places, progress_bar, run_flows
from assizes.deployments.settings import prepare_environment
from assizes.deployments.terminal import printable, tell_user
from assizes.judge.config.commit import CommitFacts
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError, NoStore, NotComparable
from assizes.judge.verdicts.run_outcome import TASK_UNJUDGED, WORDS
from assizes.tasks.ci.annotations import github_annotations, github_command, plain_annotations
from assizes.tasks.ci.base_run import BaseRun, base_commits, find_base_run
from assizes.tasks.ci.places import CasePlaces
from assizes.tasks.ci.repository import Repository
from assizes.tasks.ci.service import CiJob, ci_job
from assizes.tasks.ci.verdict import CiVerdict
from assizes.tasks.intake.run_sources import expand
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.store import open_store
from assizes.tasks.suites.suite_folder import read_suite, suite_in_use

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome

Annotations = Literal["auto", "github", "gitlab", "plain", "none"]


@dataclass(frozen=True, slots=True)
class CiOptions:
    """One job."""

    config: RunConfig
    baseline: str | None  # a run that is named; `None`: that of the base commit
    base: str | None  # commit or branch; `None`: what the service says, else git
    needs_baseline: bool  # without a run to compare with, nothing is judged
    annotations: Annotations
    files: CiFiles


def run_ci(wanted: CiOptions, *, as_json: bool) -> int:
    """Run, compare, tell; returns the exit code of the run's gates.

    Raises:
        AssizesError: as `assizes run`; `NotComparable` where a baseline is needed and missing.
    """
    job = ci_job(os.environ)
    service = job.service if wanted.annotations == "auto" else wanted.annotations
    stream = sys.stderr if as_json else sys.stdout
    with _without_commands(stream, is_github=job.service == "github"):
        repository = Repository.around(Path.cwd())
        facts = _commit_facts(repository, job)
        base = _base_run(wanted, repository, job, facts)
        tell_user(base.sentence)
        if base.run_id is None and wanted.needs_baseline:
            raise NotComparable(f"--require-baseline: {base.sentence}")
        config = _with_baseline(wanted.config, base.run_id)
        _preflight(config)
        outcome = _evaluate(config, facts)
        verdict = _verdict(outcome, config, facts, base)
        places = CasePlaces(repository, config, Path.cwd())
        output = read_output(outcome, verdict, config, places)
        if not as_json:
            print_outcome(outcome.model_copy(update={"reports": output.reports}))
        if service in {"gitlab", "plain"}:
            _print(plain_annotations(output.verdict, output.findings), stream)
    if service == "github":
        _print(github_annotations(output.verdict, output.findings), stream)
    paths = write_outputs(output, wanted.files, service)
    if as_json:
        print_json(_document(outcome, output, base, paths))
    return outcome.exit_code


@contextmanager
def _without_commands(stream: TextIO, *, is_github: bool) -> Iterator[None]:
    """Have no workflow command run within this block, whatever a transcript says; tell its error.

    GitHub takes each line of a step's output that begins with `::` for a command, until a line
    turns that off, and until a line with the same word, which nobody can guess, turns it on.
    """
    if not is_github:
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", file=stream, flush=True)
    try:
        try:
            yield
        finally:
            print(f"::{token}::", file=stream, flush=True)
    except AssizesError as error:
        print(github_command("error", "assizes", str(error)), file=stream, flush=True)
        raise


def _commit_facts(repository: Repository | None, job: CiJob) -> CommitFacts | None:
    """The commit that the run is about; `None` outside a repository."""
    commit = repository.commit() if repository else None
    if repository is None or commit is None:
        return None
    # In a job the commit is what it is about, though a step before may have changed a file.
    is_dirty = job.service == "plain" and repository.is_dirty()
    branch = job.branch or repository.branch()
    return CommitFacts(commit=commit, branch=branch, dirty=is_dirty, change=job.change)


def _base_run(
    wanted: CiOptions, repository: Repository | None, job: CiJob, facts: CommitFacts | None
) -> BaseRun:
    """The run to compare with.

    Raises:
        ConfigurationError: `--base` names no commit.
    """
    if wanted.baseline is not None:
        return BaseRun(wanted.baseline, f"compared with {wanted.baseline} (--baseline)")
    if repository is None or facts is None:
        return BaseRun(
            None,
            "no commit of git here, so no run of a base commit: nothing is compared, the gates "
            "alone decide; --baseline RUN names a run",
        )
    bases = base_commits(repository, job, wanted.base)
    if wanted.base is not None and not bases:
        raise ConfigurationError(
            f"--base {wanted.base!r}: no such commit here; fetch it first, or give a commit, a "
            "branch or a tag that `git rev-parse` knows"
        )
    if not facts.dirty:
        bases = [commit for commit in bases if commit != facts.commit]
    config = wanted.config
    used = suite_in_use(config)
    series = (config.name, read_suite(used.folder).name if used else None)
    try:
        with open_store(config.store) as store:
            return find_base_run(store, repository, job, bases, series)
    except NoStore:
        return BaseRun(
            None,
            f"no store at {config.store.uri}, so no run of a base commit: nothing is compared, the "
            "gates alone decide; keep the store between jobs, and let the base branch run first",
        )


def _with_baseline(config: RunConfig, run_id: str | None) -> RunConfig:
    """The configuration that compares with this run, and with no other one."""
    comparison = config.comparison.model_copy(update={"baseline": run_id})
    return config.model_copy(update={"comparison": comparison})


def _preflight(config: RunConfig) -> None:
    """Check what can be checked before money is spent.

    Raises:
        AssizesError: the first fault.
    """
    for setting, is_set in (
        ("kind", config.runner.kind != "local"),
        ("batch", config.runner.batch),
    ):
        if is_set:
            raise ConfigurationError(
                f"[runner] {setting}: `assizes ci` judges in its own process, at once; leave the "
                "setting out of its configuration"
            )
    if config.anchors.uri is not None:
        tell_user("[anchors] are not judged by `assizes ci`; `assizes run` judges them")
    list_sources(expand(config.transcripts.uri, None), config.transcripts.storage_options)
    check_places(config)


def _evaluate(config: RunConfig, facts: CommitFacts | None) -> RunOutcome:
    prepare_environment()
    from assizes.flows.in_process import evaluate_in_process  # imports Prefect: seconds

    with progress_bar():
        seeks = config.causes.in_ci
        return run_flows(evaluate_in_process(config, commit=facts, seeks_causes=seeks))


def _verdict(
    outcome: RunOutcome, config: RunConfig, facts: CommitFacts | None, base: BaseRun
) -> CiVerdict:
    is_open = outcome.conclusion == "Passed" and outcome.summary.task_unjudged is not None
    return CiVerdict(
        name=config.name,
        run_id=outcome.run_id,
        word=TASK_UNJUDGED if is_open else WORDS[outcome.conclusion],
        exit_code=outcome.exit_code,
        reasons=tuple(outcome.reasons),
        commit=None if facts is None else facts.commit,
        base=base.sentence,
    )


def _print(lines: Iterable[str], stream: TextIO) -> None:
    for line in lines:
        print(printable(line), file=stream)


def _document(
    outcome: RunOutcome, output: CiOutput, base: BaseRun, paths: Mapping[str, str]
) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "run_id": outcome.run_id,
        "conclusion": outcome.conclusion,
        "exit_code": outcome.exit_code,
        "reasons": outcome.reasons,
        "commit": output.verdict.commit,
        "baseline": outcome.comparison.baseline_run_id if outcome.comparison else None,
        "compared": base.sentence,
        "findings": [
            {**asdict(finding), "place": finding.place and finding.place._asdict()}
            for finding in output.findings.shown
        ],
        "findings_total": output.findings.total,
        "improved": output.findings.improved,
        "files": dict(paths),
        "reports": dict(output.reports),
    }
