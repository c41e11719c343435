"""Prepares every case between reading and hearing: joins ground truth and hides secrets."""

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
"""Columns that can quote a transcript, or hold what a model says about a transcript."""


class CasePreprocessor:
    """Turns the case of a record into the case that judges hear, equally in planning and judging.

    Attributes:
        truth: the expected values by case; `None` where none are configured.
    """

    def __init__(
        self, privacy: PrivacyConfig, truth: GroundTruth | None = None, *, canaries: bool = False
    ) -> None:
        """Prepare the redaction rules.

        Args:
            privacy: what is redacted, and whether models get the redacted case.
            truth: expected values to join.
            canaries: whether each case gets a planted injection attack that the judges must resist.

        Raises:
            ConfigurationError: Presidio is configured and not installed.
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
        """The preprocessor of a run.

        Raises:
            ConfigurationError: the ground truth cannot be read, or Presidio is not installed.
        """
        return cls(
            config.privacy,
            ground_truth(config.ground_truth),
            canaries=config.transcripts.canaries,
        )

    @property
    def truth_digest(self) -> str | None:
        """SHA-256 of the file with the ground truth; `None` where there is none."""
        return self.truth.digest if self.truth is not None else None

    def prepared_case(self, case: Case) -> Case:
        """The case as the judges and their models see it."""
        case = self.truth.case(case) if self.truth else case
        return self._sent_redactor.redact_case(plant_attack(case) if self._canaries else case)

    def displayed_case(self, case: Case) -> Case:
        """A prepared case as people see it: redacted also where models got the raw case."""
        return self._redactor.redact_case(case) if self._sends_raw else case

    def displayed_text(self, text: str) -> str:
        """A text made from a prepared case, as people see it."""
        return self._redactor.redact_text(text) if self._sends_raw else text

    def redacted_excerpt(self, text: str) -> str:
        """The beginning of a rejected record, redacted by all known rules, configured or not."""
        return self._excerpt_redactor.redact_text(text)

    def redacted_fault(self, error: DataError) -> DataError:
        """A fault with a redacted detail, because the detail may quote the record."""
        detail = self._excerpt_redactor.redact_text(error.detail)
        return error if detail == error.detail else DataError(error.code, detail)

    def redacted_rows(
        self, case: Case, tables: Mapping[str, list[dict[str, Any]]]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """The rows of a case as they are stored: redacted where the models got the raw case.

        Secrets of this process, such as an API key, are always hidden: the error message of a
        provider or a judge may hold one, although no case does.
        """
        if not self._sends_raw:
            return {
                table: [_without_own_secrets(row) for row in rows] for table, rows in tables.items()
            }
        # Redacting the case first gives the rows the placeholder numbers of a redacted case.
        placeholders = Placeholders()
        self._redactor.redact_case(case, placeholders)
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
    """A row in which the secrets of this process are masked."""
    return {
        name: mask_process_secrets(value)
        if name in _TEXT_COLUMNS and isinstance(value, str)
        else value
        for name, value in row.items()
    }


DEFAULT_PREPROCESSOR: Final = CasePreprocessor(PrivacyConfig())
"""The preprocessor without any configuration: it hides secrets and joins no ground truth."""
