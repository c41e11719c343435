from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, NAMES, detect_format, native_line
from tests.builders import case, user
from tests.judge.formats.files import RESULT_FILES, read

NATIVE = native_line(case(user("Hi")))
TRAJECTORY = {"task_id": 1, "traj": [{"role": "user", "content": "x" * 9000}]}


def test_the_table_holds_each_format_under_its_name():
    assert {name: one.name for name, one in FORMATS.items()} == {name: name for name in FORMATS}
    assert {name for name in FORMATS if not name.endswith(".document")} == set(NAMES)
    assert {name for name, one in FORMATS.items() if not one.by_line} == {
        "tau_bench",
        "tau2",
        "openai_chat.document",
        "anthropic.document",
        "inspect_ai.document",
        "atif.document",
        "who_and_when.document",
    }


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (NATIVE, "native"),
        (NATIVE + NATIVE, "native"),
        (b"\xef\xbb\xbf" + NATIVE, "native"),
        (b"\r\n\n" + NATIVE, "native"),
        (b'{"case_id": "cut o', "native"),
        (b"a broken line\n[]\n" + NATIVE, "native"),
        (b'{"transcript": {"turns": [{"role": "user", "text": "\xc3', "native"),
        (json.dumps([TRAJECTORY]).encode()[:400], "tau_bench"),
        (json.dumps([TRAJECTORY], indent=1).encode()[:400], "tau_bench"),
        (b'{"info": {"agent_info": {"llm": "m', "tau2"),
        (b'{"timestamp": "t",\n "info": {\n  "num_trials": 1,\n  "user_info": {}', "tau2"),
        (b'{"simulations": [', "tau2"),
        (b'{"id": "o1", "traceId": "t1", "type": "SPAN"}', "langfuse"),
        (b'{"id": "s1", "source": "API", "dataType": "NUMERIC"}', "langfuse"),
        (b'{"files": [{"key": "observations/1.jsonl"}]}', "langfuse"),
        (b'{"id": "t1", "observations": []}', "langfuse"),
        (b'{"name": "chat", "context": {"trace_id": "0x1"', "otel"),
        (b'{"resource_spans": [', "otel"),
        (b'{"info": {"trace_id": "t', "mlflow"),
        (b'{"body": {"model": "m", "messages": [', "openai_logs"),
        (b'{"request_id": "q1", "request": "What', "agent_evaluation"),
        (b'{"request": {"messages": [', "agent_evaluation"),
    ],
)
def test_a_file_is_known_by_how_it_begins(head: bytes, name: str):
    assert detect_format(head).name == name


@pytest.mark.parametrize(
    "head", [b"", b"\n", b"PAR1", b"[]", b"[1, 2]", b"{}", b'{"info": "x"}', b'"case_id"', b"<a/>"]
)
def test_what_is_none_of_the_formats_is_refused_with_their_names(head: bytes):
    with pytest.raises(DataError) as refused:
        detect_format(head)
    assert refused.value.code == "format"
    assert "native, tau_bench, tau2" in refused.value.detail


@pytest.mark.data
@pytest.mark.parametrize(("path", "name"), RESULT_FILES)
def test_every_result_file_is_known_by_its_first_bytes(data: Path, path: str, name: str):
    assert detect_format(read(data / path)[:4096]).name == name
