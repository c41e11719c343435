"""The corpus of the benchmarks: no sentence of a transcript or of a judge's reply comes twice."""

import json
import re
from collections.abc import Iterator
from typing import Any

from assizes.judge.formats import FORMATS
from benchmarks.varied_texts import CHARS, varied_record, varied_records
from tests.doubles.openai_reasons import with_reasons

SENTENCE_END = re.compile(r"(?<=[.!?。])\s+|\n")
FIELD = re.compile(r'\s*"\w+": |[|{}\[\]]|- \*\*')
"""Lines of JSON and Markdown: their field names repeat, as they do in any log."""


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def sentences(record: dict[str, Any]) -> set[str]:
    """The sentences that a record says, each once: an expected call repeats what was called."""
    parts = (part for text in texts(record) for part in SENTENCE_END.split(text))
    return {part for part in parts if len(part) > 30 and not FIELD.match(part)}


def test_no_sentence_comes_in_two_transcripts() -> None:
    seen: dict[str, str] = {}
    for record in varied_records(400):
        for sentence in sentences(record):
            assert seen.setdefault(sentence, record["case_id"]) == record["case_id"], sentence
    assert len(seen) > 400 * 15


def test_the_corpus_holds_what_conversations_hold() -> None:
    records = list(varied_records(200))
    lengths = [len(json.dumps(one["transcript"], ensure_ascii=False)) for one in records]
    assert 0.9 * CHARS < sum(lengths) / len(lengths) < 1.1 * CHARS
    assert {one["tags"]["language"] for one in records} == {"en", "de", "fr", "es", "ru", "ja"}
    lines = [json.dumps(one).encode() for one in records]
    cases = [FORMATS["native"].case(line) for line in lines]
    assert all(case.expected.outcomes for case in cases)
    assert sum(len(list(case.transcript.calls())) for case in cases) > 400
    assert any("| no | where | price |" in line.decode() for line in lines)


def test_a_record_follows_from_its_number_and_the_seed() -> None:
    assert varied_record(17) == varied_record(17)
    assert varied_record(17) != varied_record(17, seed=2)


def test_replies_give_reasons_of_their_own() -> None:
    text = json.dumps({"tone": {"justification": "ok", "score": 4}})
    first, second = with_reasons(text, b"1"), with_reasons(text, b"2")
    assert with_reasons(text, b"1") == first != second
    read = json.loads(first)["tone"]
    assert read["score"] in (3, 4, 5)
    assert len(read["justification"]) > 40
