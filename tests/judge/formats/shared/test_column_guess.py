"""What is guessed of a table from its names and its cells."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.formats.shared.column_guess import guess_columns


def table(text: str) -> list[dict[str, str]]:
    rows = csv.DictReader(text.strip().splitlines(), delimiter=";")
    return [{name: cell for name, cell in row.items() if cell} for row in rows]


def guessed(text: str, **given: Any) -> dict[str, Any] | None:
    columns = guess_columns(table(text), given)
    return None if columns is None else columns.model_dump(exclude_defaults=True)


TICKETS = """
ticket;n;speaker;words;prio
77;1;customer;Where is my order?;1
77;2;bot;It is on its way;1
"""


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (TICKETS, {"id": "ticket", "turn": "n", "role": "speaker", "text": "words"}),
        (
            """
conversationId;createdAt;Sender Type;Message Body;language;model
a;2026-11-20T10:00:00;CUSTOMER;Where is my order?;en;fern
a;2026-11-20T10:01:00;AGENT;It is on its way;en;fern
""",
            {
                "id": "conversationId",
                "turn": "createdAt",
                "role": "Sender Type",
                "text": "Message Body",
                "started_at": "createdAt",
                "agent": "model",
                "tags": ("language",),
            },
        ),
        (
            """
question;answer;ground_truth;contexts
Where?;Here.;There.;["a"]
Who?;I.;You.;["a"]
""",
            {
                "request": "question",
                "response": "answer",
                "expected_response": "ground_truth",
                "retrieved_context": "contexts",
            },
        ),
        (
            """
session_id;step;user_message;bot_response
1;1;Hello there;Hi
1;2;Bye now;Bye
""",
            {
                "id": "session_id",
                "turn": "step",
                "request": "user_message",
                "response": "bot_response",
            },
        ),
        (
            """
id;notes
1;[{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
2;[{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
""",
            {"id": "id", "conversation": "notes"},
        ),
        (
            """
case;kind;what was said in it
1;human;Where is my order?
1;ai;It is on its way.
""",
            {"id": "case", "role": "kind", "text": "what was said in it"},
        ),
        (
            """
cid;customer_id;author_type;body
1;7;admin;Hello there
1;7;kunde;Hi there
2;7;kunde;Hi there
""",
            {"id": "cid", "role": "author_type", "text": "body", "user": "customer_id"},
        ),
    ],
)
def test_the_columns_of_a_table_are_guessed_from_names_and_cells(
    text: str, columns: dict[str, Any]
):
    assert guessed(text) == columns


@pytest.mark.parametrize(
    "text",
    [
        "id;price\n1;2\n2;3",
        "question;category\nWhere?;a",  # no answer
        "user_id;role;words\n1;user;Hello there\n1;bot;Hi there",  # nothing says which rows belong together
    ],
)
def test_a_table_that_shows_no_conversation_is_not_guessed_at(text: str):
    assert guessed(text) is None


def test_a_column_whose_cells_are_no_numbers_and_times_orders_nothing():
    columns = guessed(TICKETS.replace(";1;customer", ";one;customer"))
    assert columns == {"id": "ticket", "role": "speaker", "text": "words"}


def test_ids_that_repeat_are_no_ids_of_rows_that_stand_alone():
    text = "id;question;answer\n1;A;B\n1;C;D"
    assert guessed(text) == {"request": "question", "response": "answer"}


def test_what_is_given_goes_before_the_guess():
    assert guessed(TICKETS, id="prio", roles={"bot": "assistant"}) == {
        "id": "prio",
        "turn": "n",
        "role": "speaker",
        "text": "words",
        "roles": {"bot": "assistant"},
    }


def test_what_is_given_helps_to_guess_the_rest():
    text = "Sitzung;Rolle;Nachricht\n1;Kunde;Wo ist es denn?\n1;Agent;Es ist unterwegs."
    assert guessed(text) is None
    assert guessed(text, id="Sitzung") == {"id": "Sitzung", "role": "Rolle", "text": "Nachricht"}


def test_an_id_is_known_by_the_end_of_its_name_in_every_layout():
    assert guessed("cid;question;answer\n1;A;B\n2;C;D") == {
        "id": "cid",
        "request": "question",
        "response": "answer",
    }
    spoken = [{"cid": n, "words": "User: Where?\nBot: Late."} for n in range(2)]
    columns = guess_columns(spoken)
    assert columns is not None
    assert (columns.id, columns.conversation) == ("cid", "words")


def test_another_layout_that_is_given_takes_the_place_of_the_guessed_one():
    assert guessed(TICKETS, conversation="words") == {"conversation": "words"}
    assert guessed(TICKETS, request="words", id="n") == {"id": "n", "request": "words"}


def test_what_is_given_and_makes_no_table_is_refused():
    with pytest.raises(ValidationError, match="give role and text"):
        guessed("id;price\n1;2\n2;3", id="id")
