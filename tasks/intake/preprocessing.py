"""What is done to every case between its reading and its hearing: truth joined, people hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.privacy import PrivacyConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import DataError
from assizes.judge.injection.canaries import planted
from assizes.judge.privacy.secret_masking import own_rules, without_own
from assizes.judge.redaction.redaction import (
    EVERYTHING,
    Placeholders,
    Redactor,
    pseudonym,
    redactor,
    secrets_only,
)
from assizes.tasks.intake.ground_truth import GroundTruth, ground_truth

_TOLD: Final = frozenset(
    {"agent", "agent_version", "details", "error", "label", "reason", "reply", "summary", "tags"}
    | {"trail", "failure_code"}
)
"""Columns that hold words of a transcript, or of a model about it."""


class Treatment:
    """The way from a record's case to the case that is heard, the same in planning and judging."""

    def __init__(
        self, privacy: PrivacyConfig, truth: GroundTruth | None = None, *, canaries: bool = False
    ) -> None:
        """Bind rules and truth, and whether each case gets an attack of ours.

        Raises:
            ConfigurationError: Presidio is wanted and cannot be had.
        """
        self.truth = truth
        self._canaries = canaries
        self._all = redactor(privacy)
        self._raw = privacy.send == "raw"
        self._sent = secrets_only(privacy) if self._raw else self._all
        self._excerpts = Redactor(
            (*own_rules(), *EVERYTHING.rules, *self._all.rules), self._all.finder
        )

    @classmethod
    def of(cls, config: RunConfig) -> Treatment:
        """As configured.

        Raises:
            ConfigurationError: the ground truth cannot be read, or Presidio cannot be had.
        """
        return cls(
            config.privacy,
            ground_truth(config.ground_truth),
            canaries=config.transcripts.canaries,
        )

    @property
    def digest(self) -> str | None:
        """Of the ground truth; null where there is none."""
        return self.truth.digest if self.truth is not None else None

    def case(self, case: Case) -> Case:
        """The case as models see it."""
        case = self.truth.case(case) if self.truth else case
        return self._sent.case(planted(case) if self._canaries else case)

    def shown(self, case: Case) -> Case:
        """A case as people see it: redacted also where it was sent raw."""
        return self._all.case(case) if self._raw else case

    def shown_text(self, text: str) -> str:
        """The same for a text made from a case."""
        return self._all.text(text) if self._raw else text

    def excerpt(self, text: str) -> str:
        """The beginning of a record that was not read, without anything that any rule finds."""
        return self._excerpts.text(text)

    def fault(self, error: DataError) -> DataError:
        """What was wrong with a record, which may quote it."""
        detail = self._excerpts.text(error.detail)
        return error if detail == error.detail else DataError(error.code, detail)

    def rows(
        self, case: Case, tables: Mapping[str, list[dict[str, Any]]]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """The rows of a case as they are stored: redacted where the case was sent raw.

        What a provider or a judge says may hold a secret of this process that no case does.
        """
        if not self._raw:
            return {table: [_told(row) for row in rows] for table, rows in tables.items()}
        known = Placeholders()
        self._all.case(case, known)  # numbers the placeholders as a redacted case would have them
        return {table: [self._row(row, known) for row in rows] for table, rows in tables.items()}

    def _row(self, plain: Mapping[str, Any], known: Placeholders) -> dict[str, Any]:
        row = _told(plain)
        shown = {
            name: self._all.text(value, known)
            if name in _TOLD and isinstance(value, str)
            else value
            for name, value in row.items()
        }
        cluster = row.get("cluster")
        if cluster is not None and self._all.text(cluster) != cluster:
            shown["cluster"] = pseudonym(cluster)
        return shown


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the secrets of this process."""
    return {
        name: without_own(value) if name in _TOLD and isinstance(value, str) else value
        for name, value in row.items()
    }


AS_READ: Final = Treatment(PrivacyConfig())
"""Where nothing is configured: secrets are hidden, nothing is joined."""
