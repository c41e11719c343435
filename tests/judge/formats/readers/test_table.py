"""Tables of conversations: a row a turn, a row an exchange, a row a conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.errors import DataError
from assizes.judge.formats import resolve_table, table_formats
from assizes.judge.formats.shared.table_cells import decoded_cell

TURNS = {"id": "ticket", "turn": "n", "role": "speaker", "text": "words"}


def cases(columns: dict[str, Any], *rows: dict[str, Any]) -> list[Case]:
    """The cases of rows, as they are read from a file of lines."""
    document = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    format_ = resolve_table(TranscriptColumns(**columns), document)
    return [format_.case(record) for record in format_.records(document)]


def spoken(case: Case) -> list[tuple[str, str | None]]:
    return [(turn.role, turn.text) for turn in case.transcript.turns]


def row(ticket: Any, n: Any, speaker: str, words: str | None = None, **rest: Any) -> dict[str, Any]:
    return {"ticket": ticket, "n": n, "speaker": speaker, "words": words, **rest}


def test_rows_of_one_id_are_the_turns_of_a_conversation_in_the_order_of_the_turn_column():
    first, second = cases(
        TURNS,
        row("77", "10", "bot", "It is late."),
        row("78", "1", "Customer", "Hello"),
        row("77", "9", "customer", "Where is it?"),
        row("78", "2", "AI Agent", "Hi"),
    )
    assert (first.case_id, spoken(first)) == (
        "77",
        [("user", "Where is it?"), ("assistant", "It is late.")],
    )
    assert spoken(second) == [("user", "Hello"), ("assistant", "Hi")]


def test_rows_are_ordered_by_times_too_and_stay_as_they_stand_without_a_turn_column():
    times = ("2026-11-20 10:02:00", "2026-11-20T10:01:00+00:00")
    rows = [row("a", times[0], "bot", "B"), row("a", times[1], "user", "A")]
    (ordered,) = cases({**TURNS, "started_at": "n"}, *rows)
    assert spoken(ordered) == [("user", "A"), ("assistant", "B")]
    assert [turn.started_at.minute for turn in ordered.transcript.turns if turn.started_at] == [
        1,
        2,
    ]
    (as_written,) = cases({name: TURNS[name] for name in ("id", "role", "text")}, *rows)
    assert spoken(as_written) == [("assistant", "B"), ("user", "A")]


def test_turns_that_have_no_order_are_a_reject_that_names_the_column():
    with pytest.raises(DataError, match="turn: column 'n' holds 'first'"):
        cases(TURNS, row("a", "first", "user", "A"), row("a", "2", "bot", "B"))


def test_prompts_calls_results_and_figures_of_turns_are_read():
    columns = {
        **TURNS,
        "tool_calls": "calls",
        "tool_call_id": "answers",
        "latency_ms": "ms",
        "tool_name": "tool",
    }
    call = [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    (case,) = cases(
        columns,
        row(1, 1, "system", "Be kind."),
        row(1, 2, "user", "Where?", ms=5),
        row(1, 3, "assistant", None, calls=json.dumps(call), ms="820"),
        row(1, 4, "tool", "late", answers="c1", tool="find"),
        row(1, 5, "assistant", "It is late.", ms=-1),
    )
    assert case.case_id == "1"
    assert case.transcript.system == "Be kind."
    asked, called, answered, told = case.transcript.turns
    assert (asked.latency_ms, called.latency_ms, told.latency_ms) == (None, 820.0, None)
    assert called.tool_calls[0].name == "find"
    assert answered.tool_result is not None
    assert (answered.tool_result.call_id, answered.tool_result.content) == ("c1", "late")


@pytest.mark.parametrize(
    ("prompts", "system", "moved"),
    [
        (["Be kind.", "Be kind.", "Be kind."], "Be kind.", {}),
        ([None, "Be kind.", "Be kind."], "Be kind.", {"moved system message": 1}),
        (
            ["Be kind.", "Be brief.", "Be kind."],
            "Be kind.\n\nBe brief.",
            {"moved system message": 1},
        ),
    ],
)
def test_a_prompt_that_stands_in_every_row_of_a_conversation_counts_once(
    prompts: list[str | None], system: str, moved: dict[str, int]
):
    said = [("user", "Where?"), ("bot", "On its way."), ("user", "Thanks")]
    (case,) = cases(
        {**TURNS, "system": "prompt"},
        *(
            row(1, n, *turn, prompt=prompt)
            for n, (turn, prompt) in enumerate(zip(said, prompts, strict=True))
        ),
    )
    assert case.transcript.system == system
    assert spoken(case) == [("user", "Where?"), ("assistant", "On its way."), ("user", "Thanks")]
    assert case.metadata.get("fidelity", {}) == moved


def test_a_prompt_beside_each_exchange_of_a_conversation_counts_once():
    columns = {"id": "id", "turn": "n", "request": "q", "response": "a", "system": "prompt"}
    asked = [{"id": 1, "n": 1, "q": "A?", "a": "A."}, {"id": 1, "n": 2, "q": "B?", "a": "B."}]
    (case,) = cases(columns, *({**one, "prompt": "Be kind."} for one in asked))
    assert (case.transcript.system, len(case.transcript.turns)) == ("Be kind.", 4)


def test_a_word_for_a_speaker_that_is_not_known_is_a_reject_that_names_the_setting():
    with pytest.raises(DataError) as refused:
        cases(TURNS, row("a", 1, "Kunde", "Hallo"))
    assert refused.value.code == "schema"
    assert 'roles = { kunde = "user" }' in refused.value.detail
    told = {**TURNS, "roles": {"Kunde": "user", "event": "ignore"}}
    (case,) = cases(told, row("a", 1, "Kunde", "Hallo"), row("a", 2, "event", "hung up"))
    assert spoken(case) == [("user", "Hallo")]


def test_an_empty_cell_that_is_needed_is_a_reject_that_names_the_column():
    with pytest.raises(DataError, match="id: nothing in column 'ticket'; filled in this row: n"):
        cases(TURNS, {"n": 1, "speaker": "user", "words": "A"})
    with pytest.raises(DataError, match="role: nothing in column 'speaker'"):
        cases(TURNS, {"ticket": 1, "n": 1, "words": "A"})
    with pytest.raises(DataError, match="request: nothing in column 'q' and 'a'"):
        cases({"request": "q", "response": "a"}, {"x": "1"})


def test_a_conversation_in_which_no_row_has_a_text_is_a_reject_that_names_the_column():
    rows = [row(1, 1, "user", None, said="A"), row(1, 2, "bot", None, said="B")]
    with pytest.raises(DataError, match="text: nothing in column 'words'; filled in this row: t"):
        cases(TURNS, *rows)


EXCHANGE = {"request": "question", "response": "answer"}


def test_a_question_and_its_answer_are_a_case_with_its_ground_truth_and_passages():
    columns = {
        **EXCHANGE,
        "id": "nr",
        "expected_response": "gold",
        "expected_outcomes": "must",
        "retrieved_context": "context",
        "latency_ms": "ms",
        "agent": "bot",
        "agent_version": "release",
        "user": "who",
        "tags": ["lang"],
    }
    passages = [{"page_content": "Late.", "source": "a.md"}, "Later."]
    (case,) = cases(
        columns,
        {
            "nr": 12.0,
            "question": "Where?",
            "answer": "Here",
            "gold": "There",
            "must": "It was found.\n\nThe user was told.",
            "context": json.dumps(passages),
            "ms": 7,
            "bot": "fern",
            "release": 41,
            "who": "u1",
            "lang": "en",
            "extra": 1,
        },
    )
    assert (case.case_id, case.agent, case.agent_version, case.cluster) == (
        "12",
        "fern",
        "41",
        "u1",
    )
    assert case.tags == {"lang": "en"}
    assert spoken(case) == [("user", "Where?"), ("assistant", "Here")]
    assert case.expected.response == "There"
    assert case.expected.outcomes == ("It was found.", "The user was told.")
    chunks = [(chunk.content, chunk.doc_uri) for chunk in case.transcript.retrieved_chunks()]
    assert chunks == [("Late.", "a.md"), ("Later.", None)]
    assert case.transcript.agent_latency_ms() == 7
    assert case.metadata["fidelity"] == {"unread extra": 1}


def test_exchanges_of_one_id_are_joined_in_their_order():
    (case,) = cases(
        {**EXCHANGE, "id": "s", "turn": "n"},
        {"s": 1, "n": 2, "question": "C", "answer": "D"},
        {"s": 1, "n": 1, "question": "A", "answer": "B"},
    )
    assert [text for _, text in spoken(case)] == ["A", "B", "C", "D"]


def test_a_row_without_an_id_is_known_by_its_content():
    first, second = cases(EXCHANGE, {"question": "A"}, {"question": "B"})
    assert first.case_id != second.case_id
    assert len(first.case_id) == 32


@pytest.mark.parametrize(
    "cell",
    [
        "User: Where is it?\nBot: It is\nlate.",
        "[Customer] Where is it?\n[Agent]: It is\nlate.",
        "**User:** Where is it?\n\n**Assistant:** It is\nlate.",
        json.dumps(
            [
                {"role": "user", "content": "Where is it?"},
                {"role": "assistant", "content": "It is\nlate."},
            ]
        ),
        """[{'role': 'user', 'content': "Where is it?"}, {'role': 'ai', 'content': 'It is\\nlate.'}]""",
        [{"from": "human", "value": "Where is it?"}, {"from": "gpt", "value": "It is\nlate."}],
        {
            "messages": [
                {"speaker": "caller", "text": "Where is it?"},
                {"speaker": "agent", "text": "It is\nlate."},
            ]
        },
    ],
)
def test_a_whole_conversation_in_a_cell_is_read_from_json_and_from_text(cell: Any):
    (case,) = cases({"conversation": "chat"}, {"chat": cell})
    texts = [(role, (text or "").strip()) for role, text in spoken(case)]
    assert texts == [("user", "Where is it?"), ("assistant", "It is\nlate.")]


def test_tool_calls_in_messages_of_a_cell_are_kept():
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "late"},
    ]
    (case,) = cases({"conversation": "chat"}, {"chat": json.dumps(messages)})
    assert [call.name for _, call in case.transcript.calls()] == ["find"]


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("so it goes", "begins with 'so it goes', expected a JSON list of messages, or a line"),
        (7, "found int, expected a JSON list of messages"),
        ('[{"content": "A"}]', "a message without role or speaker"),
    ],
)
def test_a_cell_without_a_conversation_is_a_reject_that_says_what_is_accepted(
    cell: Any, fault: str
):
    with pytest.raises(DataError) as refused:
        cases({"conversation": "chat"}, {"chat": cell})
    assert fault in refused.value.detail


def test_a_json_document_of_rows_is_a_table_as_lines_are():
    rows = [{"question": "A", "answer": "B"}]
    document = json.dumps(rows, indent=1).encode()
    format_ = resolve_table(TranscriptColumns(**EXCHANGE), document)
    assert (format_.name, format_.by_line) == ("table.document", False)
    (read,) = [format_.case(record) for record in format_.records(document)]
    assert read.transcript == cases(EXCHANGE, *rows)[0].transcript


def test_a_line_that_stands_for_no_row_is_rejected_with_its_reason():
    formats = table_formats(TranscriptColumns(**EXCHANGE))
    with pytest.raises(DataError) as refused:
        formats["table"].case(b'"line 4: 3 cells under 2 column names"')
    assert (refused.value.code, refused.value.detail) == (
        "csv",
        "line 4: 3 cells under 2 column names",
    )


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("{'a': [1, -2.5e3, None, True]}", {"a": [1, -2500.0, None, True]}),
        ("['a' 'b']", ["ab"]),
        ("[sic] hello", "[sic] hello"),
        ("[1, [2", "[1, [2"),
        ("{[1]: 2}", "{[1]: 2}"),
        ("[open('x')]", "[open('x')]"),
    ],
)
def test_lists_as_python_writes_them_are_read_and_no_other_code(cell: str, value: Any):
    assert decoded_cell(cell) == value


def test_what_python_would_read_too_long_or_too_deep_is_left_as_text():
    for cell in ("[" * 300 + "]" * 300, f"['{'x' * (1 << 20)}']", "[" + "1," * 200_000):
        assert decoded_cell(cell) is cell
