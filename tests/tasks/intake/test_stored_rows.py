"""The rows of a case as they are stored: what can quote a raw transcript is redacted, lists too."""

from __future__ import annotations

import pytest

from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.privacy.secret_masking import mask_process_secrets
from assizes.tasks.intake.preprocessing import CasePreprocessor
from tests.builders import agent, case, user

ADDRESS = "ada@example.com"


@pytest.mark.parametrize(("send", "shown"), [("raw", "mail [EMAIL_1]"), ("redacted", None)])
def test_texts_and_lists_of_texts_that_can_quote_a_raw_case_are_redacted(send, shown):
    preprocessor = CasePreprocessor(PrivacyConfig(send=send, redact=("secret", "email")))
    text = f"mail {ADDRESS}"
    rows = {
        "cases": [{"summary": text, "tools": [text], "flags": [text], "turn_count": 2}],
        "scores": [{"reason": text, "judge": text}, {"reason": None}],
    }
    heard = case(user(text), agent("Sent."))
    stored = preprocessor.redacted_rows(heard, rows)
    quoted = shown or text
    assert stored["cases"] == [
        {"summary": quoted, "tools": [quoted], "flags": [text], "turn_count": 2}
    ]
    assert stored["scores"] == [{"reason": quoted, "judge": text}, {"reason": None}]
    assert rows["cases"][0]["tools"] == [text]
    assert mask_process_secrets(text) == text
