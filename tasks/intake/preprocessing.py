"""What is done to every case between its reading and its hearing: truth joined, people hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.privacy import PrivacyConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import DataError
from assizes.judge.injection.canaries import plant_attack
from assizes.judge.privacy.secret_masking import mask_process_secrets, process_secret_rules
from assizes.judge.redaction.redaction import (
    FULL_REDACTOR,
    Placeholders,
    Redactor,
    pseudonym,
    redactor,
    secrets_only,
)
from assizes.tasks.intake.ground_truth import GroundTruth, ground_truth

_TEXT_COLUMNS: Final = frozenset(
    {"agent", "agent_version", "details", "error", "label", "reason", "reply", "summary", "tags"}
    | {"trail", "failure_code"}
)
"""Columns that hold words of a transcript, or of a model about it."""


class CasePreprocessor:
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
        self._redactor = redactor(privacy)
        self._sends_raw = privacy.send == "raw"
        self._sent_redactor = secrets_only(privacy) if self._sends_raw else self._redactor
        self._excerpt_redactor = Redactor(
            (*process_secret_rules(), *FULL_REDACTOR.rules, *self._redactor.rules),
            self._redactor.finder,
        )

    @classmethod
    def from_config(cls, config: RunConfig) -> CasePreprocessor:
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
    def truth_digest(self) -> str | None:
        """Of the ground truth; null where there is none."""
        return self.truth.digest if self.truth is not None else None

    def prepared_case(self, case: Case) -> Case:
        """The case as models see it."""
        case = self.truth.case(case) if self.truth else case
        return self._sent_redactor.redact_case(plant_attack(case) if self._canaries else case)

    def displayed_case(self, case: Case) -> Case:
        """A case as people see it: redacted also where it was sent raw."""
        return self._redactor.redact_case(case) if self._sends_raw else case

    def displayed_text(self, text: str) -> str:
        """The same for a text made from a case."""
        return self._redactor.redact_text(text) if self._sends_raw else text

    def redacted_excerpt(self, text: str) -> str:
        """The beginning of a record that was not read, without anything that any rule finds."""
        return self._excerpt_redactor.redact_text(text)

    def redacted_fault(self, error: DataError) -> DataError:
        """What was wrong with a record, which may quote it."""
        detail = self._excerpt_redactor.redact_text(error.detail)
        return error if detail == error.detail else DataError(error.code, detail)

    def redacted_rows(
        self, case: Case, tables: Mapping[str, list[dict[str, Any]]]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """The rows of a case as they are stored: redacted where the case was sent raw.

        What a provider or a judge says may hold a secret of this process that no case does.
        """
        if not self._sends_raw:
            return {
                table: [_without_own_secrets(row) for row in rows] for table, rows in tables.items()
            }
        placeholders = Placeholders()
        self._redactor.redact_case(
            case, placeholders
        )  # numbers the placeholders as a redacted case would have them
        return {
            table: [self._redacted_row(row, placeholders) for row in rows]
            for table, rows in tables.items()
        }

    def _redacted_row(self, plain: Mapping[str, Any], placeholders: Placeholders) -> dict[str, Any]:
        row = _without_own_secrets(plain)
        redacted_row = {
            name: self._redactor.redact_text(value, placeholders)
            if name in _TEXT_COLUMNS and isinstance(value, str)
            else value
            for name, value in row.items()
        }
        cluster = row.get("cluster")
        if cluster is not None and self._redactor.redact_text(cluster) != cluster:
            redacted_row["cluster"] = pseudonym(cluster)
        return redacted_row


def _without_own_secrets(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without the secrets of this process."""
    return {
        name: mask_process_secrets(value)
        if name in _TEXT_COLUMNS and isinstance(value, str)
        else value
        for name, value in row.items()
    }


DEFAULT_PREPROCESSOR: Final = CasePreprocessor(PrivacyConfig())
"""Where nothing is configured: secrets are hidden, nothing is joined."""
