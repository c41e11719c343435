"""Rows of tables become records of conversations."""

from __future__ import annotations

import json

import pytest

from assizes.deployments.library.frames import conversation_records
from assizes.judge.errors import ConfigurationError
from tests.deployments.library.logs import COLUMNS, messages, turn_rows


def test_a_row_a_message_is_joined_in_the_order_of_its_turns():
    records = conversation_records(turn_rows(2), COLUMNS)
    assert records == [
        {"conversation_id": "c0", "messages": messages(0)},
        {"conversation_id": "c1", "messages": messages(1)},
    ]


def test_columns_of_common_names_are_recognised():
    rows = [
        {"conversation_id": 7, "Role": "customer", "content": "Hi", "unused": 1},
        {"conversation_id": 7, "Role": "Bot", "content": "Hello", "unused": 2},
    ]
    assert conversation_records(rows, None) == [
        {
            "conversation_id": "7",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello"},
            ],
        }
    ]


@pytest.mark.parametrize(
    "cell",
    [
        messages(1),
        json.dumps(messages(1)),
        json.dumps({"messages": messages(1)}),
        "User: Where is order 1?\nAssistant: Order 1 is on its way.",
    ],
    ids=["list", "json", "object", "text"],
)
def test_a_conversation_in_one_cell_is_read(cell):
    (record,) = conversation_records(
        [{"k": "c1", "talk": cell}], {"id": "k", "conversation": "talk"}
    )
    assert record == {"conversation_id": "c1", "messages": messages(1)}


def test_questions_with_answers_and_what_was_expected_are_an_evaluation_set():
    rows = [{"question": "2 + 2?", "answer": "4", "expected": "It is 4.", "note": None}]
    assert conversation_records(rows, None) == [
        {"request": "2 + 2?", "response": "4", "expected_response": "It is 4."}
    ]
    mapped = {"conversation": "talk", "expected_response": "want"}
    (record,) = conversation_records([{"talk": messages(0), "want": "x"}], mapped)
    assert record == {"trace": messages(0), "expected_response": "x"}


def test_rows_that_are_records_of_a_format_are_taken_as_they_are():
    rows = [{"case_id": "c1", "transcript": {"turns": []}, "agent": None}]
    assert conversation_records(rows, None) == [{"case_id": "c1", "transcript": {"turns": []}}]
    log = {"chat_id": 3, "messages": messages(0), "tools": [], "usage": None}
    assert conversation_records([log], None) == [
        {"chat_id": 3, "messages": messages(0), "tools": [], "conversation_id": "3"}
    ]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (None, "cases: the columns 'chat', 'n', 'who', 'said' are not recognised as conversations"),
        ({"ident": "chat"}, "columns: unknown key 'ident'; known: agent"),
        ({"id": "chatt"}, r"columns\['id'\]: unknown column 'chatt'; known: chat, n, said, who"),
        ({"id": "chat"}, "columns: no column holds what was said; name 'role' and 'text'"),
        ({"role": "who"}, "also needs id and text"),
    ],
)
def test_a_mapping_that_does_not_fit_names_the_way_out(columns, text):
    with pytest.raises(ConfigurationError, match=text):
        conversation_records(turn_rows(1), columns)
