"""Cases of a stored run, read again and made cases of a suite, with their secrets hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.case import Case
from assizes.judge.causes.failures import failures
from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.errors import ConfigurationError, DataError, UnknownCase
from assizes.judge.privacy.secret_masking import keys_in, mask_credentials
from assizes.judge.redaction import redaction
from assizes.judge.rows import CAUSE_TABLES, COMPLETE
from assizes.judge.suites.promoted import (
    GuardedCause,
    PromotedFailure,
    Provenance,
    with_provenance,
)
from assizes.judge.verdicts.executions import CASE
from assizes.tasks.runs.stored_cases import reread_cases, run_config
from assizes.tasks.runs.stored_causes import cause_named
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.cause_tables import RunCauses

_NAMES: Final = 5
"""The most names that an error message lists."""

_COPIED: Final = (
    *("repetition", "transcript_uri", "position", "transcript_hash", "agent", "agent_version"),
)
"""Columns of table `cases` that the provenance of a case repeats."""


@dataclass(frozen=True, slots=True)
class CaseChoice:
    """Which cases of a run are promoted; a case that any part names is."""

    failed: bool = False  # every case that failed
    causes: tuple[str, ...] = ()  # ids, their unique beginnings, or names
    case_ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is chosen."""
        return not (self.failed or self.causes or self.case_ids)


class PromotableCases(NamedTuple):
    """The chosen cases of a run."""

    run_id: str
    cases: list[Case]  # as the suite holds them, sorted by id
    refused: dict[str, str]  # case id -> why the case cannot be written


def promotable_cases(
    store: Store, run_id: str, choice: CaseChoice, promoted_by: str
) -> PromotableCases:
    """Read the chosen cases of a run again, and hide in them what must not be written.

    Of a case with repetitions, the first that failed is taken.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case, or none that failed.
        ConfigurationError: the run has no such cause, or the ground truth of the run is gone.
    """
    record = store.run(run_id)
    causes = _causes(store, record, needed=bool(choice.causes))
    named = [cause_named(causes, word) for word in choice.causes]
    rows = _chosen_rows(store, record.run_id, choice, causes.case_causes, named)
    scores = store.scan(record.run_id, "scores")
    chosen = pl.col("case_id").is_in([row["case_id"] for row in rows])
    failed = failures(scores.filter(chosen))
    hiding = _Hiding(record)
    promoted, refused = [], {}
    for row, case in zip(rows, reread_cases(record, rows), strict=True):
        if isinstance(case, DataError):
            refused[row["case_id"]] = str(case)
            continue
        provenance = _provenance(record, row, failed, causes)
        is_for_cause = not choice.failed and row["case_id"] not in choice.case_ids
        if is_for_cause:  # else it guards against everything that it failed at
            provenance = provenance.about(named)
        hidden = hiding.hide(case, provenance.model_copy(update={"promoted_by": promoted_by}))
        if (why := hiding.why_not(hidden)) is None:
            promoted.append(hidden)
        else:
            refused[row["case_id"]] = why
    return PromotableCases(record.run_id, promoted, refused)


def _causes(store: Store, record: RunRecord, *, needed: bool) -> RunCauses:
    """The causes of a run; none for a run that is not complete, unless they are needed."""
    from assizes.tasks.runs.run_causes import causes_of_run  # scikit-learn is slow to import

    if needed or record.status == COMPLETE:
        return causes_of_run(store, record.run_id)
    tables = {name: pl.DataFrame(schema=columns) for name, columns in CAUSE_TABLES.items()}
    return RunCauses(tables["causes"], tables["case_causes"], pl.DataFrame())


def _chosen_rows(
    store: Store, run_id: str, choice: CaseChoice, case_causes: pl.DataFrame, named: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of table `cases` that are chosen, one for each case, sorted by id."""
    cases = store.scan(run_id, "cases")
    is_failed = pl.col("passed").eq(other=False)
    ids = set(choice.case_ids)
    for word, cause_id in zip(choice.causes, named, strict=True):
        shown = case_causes.filter(cause_id=cause_id)["case_id"]
        if shown.is_empty():
            raise ConfigurationError(f"--cause {word!r}: no case of run {run_id} shows it")
        ids.update(shown)
    is_chosen = pl.col("case_id").is_in(sorted(ids))
    if choice.failed:
        is_chosen |= is_failed.fill_null(value=False)
    rows = cases.filter(is_chosen).collect()
    if missing := sorted(set(choice.case_ids) - set(rows["case_id"])):
        raise UnknownCase(f"run {run_id!r} has no case {', '.join(map(repr, missing[:_NAMES]))}")
    if rows.is_empty():
        raise UnknownCase(
            f"run {run_id!r} has no failed case; --cause and --case also promote cases of which only a "
            "metric failed"
        )
    order = ("case_id", is_failed.fill_null(value=False), "repetition")
    firsts = rows.sort(*order, descending=[False, True, False])
    return firsts.unique("case_id", keep="first", maintain_order=True).to_dicts()


def _provenance(
    record: RunRecord, row: Mapping[str, Any], failed: pl.DataFrame, causes: RunCauses
) -> Provenance:
    own = {name: row[name] for name in CASE}
    shown = causes.case_causes.filter(**own)
    by_metric: dict[str, list[str]] = {}
    for metric, cause_id in shown.select("metric", "cause_id").sort(pl.all()).iter_rows():
        by_metric.setdefault(metric, []).append(cause_id)
    names = dict(causes.causes.select("cause_id", "name").iter_rows())
    return Provenance(
        run_id=record.run_id,
        **{name: row[name] for name in _COPIED},
        day=record.day,
        failures=tuple(
            PromotedFailure(
                metric=each["metric"],
                reason=each["reason"],
                code=each["code"],
                causes=tuple(by_metric.get(each["metric"], ())),
            )
            for each in failed.filter(**own).iter_rows(named=True)
        ),
        causes=tuple(
            GuardedCause(cause_id=cause_id, name=names.get(cause_id, ""))
            for cause_id in shown["cause_id"].unique().sort()
        ),
    )


class _Hiding:
    """Hides what a run hides, and secrets whatever the run's configuration says."""

    def __init__(self, record: RunRecord) -> None:
        own = redaction.redactor(run_config(record).privacy)
        secrets = redaction.secrets_only(PrivacyConfig())
        self._redactor = redaction.Redactor((*own.rules, *secrets.rules), own.finder)

    def hide(self, case: Case, provenance: Provenance) -> Case:
        """The case of a suite, with placeholders in its texts and in those of its provenance."""
        known = redaction.Placeholders()
        hidden = self._redactor.redact_case(case, known)

        def text(plain: str) -> str:
            return self._redactor.redact_text(mask_credentials(plain), known)

        shown = {
            "transcript_uri": text(provenance.transcript_uri),
            "promoted_by": text(provenance.promoted_by),
            "failures": tuple(
                failure.model_copy(update={"reason": text(failure.reason)})
                for failure in provenance.failures
            ),
            "causes": tuple(
                cause.model_copy(update={"name": text(cause.name)}) for cause in provenance.causes
            ),
        }
        return with_provenance(hidden, provenance.model_copy(update=shown))

    def why_not(self, case: Case) -> str | None:
        """Why a case cannot be written although it was redacted; `None`: it can."""
        # These refer to something outside, so no placeholder can stand for them.
        kept = {
            "case_id": case.case_id,
            "cluster": case.cluster,
            "database": case.expected.database,
        }
        for name, text in kept.items():
            if text is not None and self._redactor.redact_text(text) != text:
                return f"its {name} holds what must not be written"
        places = list(keys_in(case.model_dump(mode="json")))
        return f"{places[0]} holds what looks like a key" if places else None
