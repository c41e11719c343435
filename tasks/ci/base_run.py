"""The run that a CI job is compared with: that of the base commit, or the nearest before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from assizes.judge.config.commit import GIT, CommitFacts
from assizes.judge.config.run import SUITE
from assizes.judge.rows import COMPLETE
from assizes.tasks.ci.repository import Repository
from assizes.tasks.ci.service import CiJob
from assizes.tasks.runs.stored_runs import cache_use
from assizes.tasks.store import Store


class BaseRun(NamedTuple):
    """The run to compare with, and how it was found."""

    run_id: str | None  # `None`: there is none
    sentence: str


class _CommitRun(NamedTuple):
    run_id: str
    facts: CommitFacts


def base_commits(repository: Repository, job: CiJob, wanted: str | None) -> list[str]:
    """The commits whose run would be the baseline, the best first; `wanted` is `--base`."""
    if wanted is not None:
        found_commit = repository.commit(wanted)
        return [found_commit] if found_commit else []
    merged_into = repository.commit("HEAD^1") if job.is_merge else None
    named = [commit for commit in (merged_into, *job.bases) if commit]
    if not named and (own := repository.base_of_head()):
        named = [own]
    return list(dict.fromkeys(named))


def find_base_run(
    store: Store,
    repository: Repository,
    job: CiJob,
    bases: Sequence[str],
    series: tuple[str, str | None],
) -> BaseRun:
    """The newest complete run of a base commit, else of the nearest commit before one.

    Where no commit of the history has a run, as in a shallow clone, it is the newest run of the
    base branch. `series` is the name of the runs, and the name of their suite or `None`.
    """
    runs = list(_commit_runs(store, series))
    for base in bases:
        for distance, commit in enumerate(repository.ancestors(base) or [base]):
            if (run := _of_commit(runs, commit)) is not None:
                return BaseRun(run.run_id, _sentence(run.run_id, commit, base, distance))
    branch = job.base_branch
    if branch and (run := next((run for run in runs if _is_of_branch(run, branch)), None)):
        line = f"run {run.run_id}, the newest of branch {branch} (commit {run.facts.commit[:12]})"
        return BaseRun(run.run_id, f"{line}: no run of the base commit is stored")
    name, _ = series
    of = f"commit {bases[0][:12]} or one before it" if bases else "a base commit"
    return BaseRun(
        None,
        f"no run {name!r} of {of} is in {store.uri}: nothing is compared, the gates alone decide; "
        "a run of the base branch that keeps its store makes one",
    )


def _sentence(run_id: str, commit: str, base: str, distance: int) -> str:
    if not distance:
        return f"run {run_id} of the base commit {commit[:12]}"
    before = "1 commit" if distance == 1 else f"{distance} commits"
    return f"run {run_id} of commit {commit[:12]}, {before} before the base commit {base[:12]}"


def _of_commit(runs: Iterable[_CommitRun], commit: str) -> _CommitRun | None:
    return next((run for run in runs if run.facts.commit == commit), None)


def _is_of_branch(run: _CommitRun, branch: str) -> bool:
    return run.facts.branch == branch and run.facts.change is None


def _commit_runs(store: Store, series: tuple[str, str | None]) -> Iterator[_CommitRun]:
    """The complete runs of clean commits that can be a baseline, the newest first."""
    name, suite = series
    run_ids = store.run_index().filter(name=name, status=COMPLETE)["run_id"]
    for row in store.rows_of_runs(run_ids).iter_rows(named=True):
        config: dict[str, Any] = json.loads(row["config"])
        summary = json.loads(row["summary"] or "{}")
        if cache_use(row) == "replay_only" or summary.get("outcome") in {None, "inconclusive"}:
            continue
        if config.get(SUITE, {}).get("name") != suite:
            continue
        try:
            facts = CommitFacts.model_validate(config.get(GIT))
        except ValidationError:  # a run that was not begun by `assizes ci`
            continue
        if not facts.dirty:
            yield _CommitRun(row["run_id"], facts)
