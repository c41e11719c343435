"""[transcripts.columns]: which settings make a table, and what is said of those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig

TURNS = {"id": "ticket", "role": "speaker", "text": "words"}


@pytest.mark.parametrize(
    ("columns", "joins_rows"),
    [
        (TURNS, True),
        ({"id": "s", "turn": "n", "request": "q", "response": "a"}, True),
        ({"request": "q", "response": "a"}, False),
        ({"request": "q"}, False),
        ({"conversation": "messages"}, False),
    ],
)
def test_rows_are_joined_where_a_row_is_only_a_part_of_a_conversation(
    columns: dict[str, Any], joins_rows: bool
):
    assert TranscriptColumns(**columns).joins_rows is joins_rows


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"id": "ticket"}, "give role and text (a row is a turn)"),
        ({**TURNS, "conversation": "messages"}, "one of the three"),
        ({"id": "ticket", "role": "speaker"}, "role and text: a table with a turn in each row"),
        ({"role": "speaker", "text": "words"}, "id: needed where several rows make one"),
        ({"request": "q", "turn": "n"}, "id: needed where several rows make one"),
        ({"conversation": "messages", "turn": "n"}, "turn: a row that holds a whole"),
        ({**TURNS, "roles": {"kunde": "client"}}, "'user', 'assistant', 'system', 'tool' or"),
        ({**TURNS, "speaker": "who"}, "Extra inputs are not permitted"),
    ],
)
def test_columns_that_make_no_table_are_refused_with_what_would(
    columns: dict[str, Any], fault: str
):
    with pytest.raises(ValidationError) as refused:
        TranscriptColumns.model_validate(columns)
    assert fault in str(refused.value)


def test_a_format_and_columns_exclude_each_other():
    with pytest.raises(ValidationError, match="leave one of the two out"):
        TranscriptsConfig(uri="t.csv", format="openai_chat", columns=TranscriptColumns(**TURNS))


def test_words_of_roles_are_compared_in_lower_case_and_without_hyphens():
    columns = TranscriptColumns(**TURNS, roles={"End-User ": "user"})
    assert columns.roles == {"end_user": "user"}


def test_the_hash_of_a_configuration_without_columns_is_that_of_before_there_were_any():
    plain = RunConfig.model_validate({"transcripts": {"uri": "t/"}})
    table = RunConfig.model_validate({"transcripts": {"uri": "t/", "columns": TURNS}})
    assert "columns" not in plain.result_settings()["transcripts"]
    assert plain.config_hash() != table.config_hash()
