"""`assizes explain` and `assizes case` over the demo's store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Answer, assizes
from tests.deployments.web.conftest import STORE


@pytest.fixture
def ask(demo: tuple[Path, str, str]):
    folder, _, run_id = demo

    def asked(command: str, *rest: str) -> Answer:
        return assizes(command, run_id, *rest, "--store", STORE, cwd=folder)

    return asked


def test_a_score_is_told_from_the_prompt_to_the_reply(ask):
    answer = ask("explain", "7", "tool_routing")
    assert answer.code == 0, answer
    assert "score: 2 poor  wrong_tool_selected  turns 28" in answer.out
    assert "as it was sent" in answer.out
    assert "You judge a finished conversation" in answer.out
    assert "[28] call: update_reservation_flights(" in answer.out
    assert '"failure_code": "wrong_tool_selected"' in answer.out
    assert "read as: a reply that fits" in answer.out


def test_the_same_as_json_holds_every_question(ask):
    document = json.loads(ask("explain", "7", "tool_routing", "--json").out)
    (question,) = document["asks"]
    assert question["exact"] is True
    assert [message["role"] for message in question["messages"]] == ["system", "user"]
    assert document["scores"][0]["failure_code"] == "wrong_tool_selected"


def test_a_metric_that_is_not_there_is_one_line(ask):
    answer = ask("explain", "7", "nope")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "tool_routing" in answer.err


def test_a_conversation_shows_each_finding_at_its_turn(ask):
    lines = ask("case", "7").out.splitlines()
    called = lines.index(next(line for line in lines if line.startswith("[28] call: update_")))
    assert "    ^ tool_routing 2 poor wrong_tool_selected" in lines[called : called + 5]
    assert "conversation:" not in ask("case", "7", "--no-conversation").out


def test_a_transcript_that_changed_is_not_passed_off_as_the_one_judged(
    demo: tuple[Path, str, str], ask
):
    folder, _, _ = demo
    transcripts = folder / ".assizes" / "demo" / "demo-v2.jsonl"
    before = transcripts.read_bytes()
    try:
        transcripts.write_bytes(before.replace(b"XEHM4B", b"XXXXXX"))
        case, explanation = ask("case", "7"), ask("explain", "7", "tool_routing")
    finally:
        transcripts.write_bytes(before)
    assert (case.code, explanation.code) == (0, 0)
    assert "conversation: cannot be shown: changed" in case.out
    assert "prompts: cannot be rendered again: changed" in explanation.out
    assert "wrong_tool_selected" in explanation.out
