"""Pages of Langfuse's API; its scores as labels: whose score counts, and on which scale it is."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, detect_format
from assizes.judge.formats.shared.parsing import FIDELITY, HUMAN_LABELS
from tests.judge.formats.foreign import lines

OTHER_SCALE = "dropped label on another scale"


def said(trace: str) -> dict[str, Any]:
    """A model call of a trace, without which a trace makes no case."""
    return {
        "id": f"o-{trace}",
        "trace_id": trace,
        "type": "GENERATION",
        "input": "Hi",
        "output": "Hello",
    }


def score(trace: str, name: str, value: float | None, **more: Any) -> dict[str, Any]:
    row = {"trace_id": trace, "name": name, "value": value, "string_value": None}
    return {**row, "data_type": "NUMERIC", "source": "ANNOTATION", **more}


def cases(*rows: dict[str, Any]) -> list[Case]:
    """The cases of one file, by their ids."""
    langfuse = FORMATS["langfuse"]
    read = [langfuse.case(record) for record in langfuse.records(lines(*rows))]
    return sorted(read, key=lambda case: case.case_id)


def labels(*rows: dict[str, Any]) -> dict[str, float]:
    (case,) = cases(said("t"), *rows)
    return case.labels


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"data": list(rows), "meta": {"page": 1, "limit": 50, "totalItems": len(rows)}}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_page_of_the_api_holds_what_it_lists(indent: int | None):
    observation = {
        "id": "o",
        "traceId": "t",
        "type": "GENERATION",
        "input": "Hi",
        "output": "Hello",
    }
    trace = {"id": "u", "observations": [{**observation, "id": "p", "traceId": "u"}]}
    document = json.dumps(page(observation, trace), indent=indent).encode()
    langfuse = detect_format(document[:200])
    read = [langfuse.case(record) for record in langfuse.records(document)]
    assert langfuse.name == "langfuse"
    assert read == cases(observation, trace)
    assert [case.case_id for case in read] == ["t", "u"]


def test_pages_one_a_line_are_read_together():
    one, other = page(said("t"), score("t", "mood", 0.5)), page(said("u"))
    assert cases(one, other) == cases(said("t"), score("t", "mood", 0.5), said("u"))


@pytest.mark.parametrize("value", [page(), {"data": [{"id": 1}]}, {"data": "x"}])
def test_a_page_of_something_else_is_not_taken_for_one(value: dict[str, Any]):
    with pytest.raises(DataError):
        detect_format(json.dumps(value).encode())


def test_no_score_of_a_name_is_a_label_where_another_of_its_file_is_above_1():
    stars = [score(f"t{value}", "helpfulness", value) for value in (1, 2, 5)]
    other = score("t1", "correct", 1)
    traces = [said(f"t{value}") for value in (1, 2, 5)]
    for rows in ([*traces, *stars, other], [*stars[::-1], other, *traces]):
        first, second, third = cases(*rows)
        assert (first.labels, second.labels, third.labels) == ({"correct": 1.0}, {}, {})
        assert all(case.metadata[FIDELITY] == {OTHER_SCALE: 1} for case in (first, second, third))
        assert first.metadata[HUMAN_LABELS][0]["label"] == 1  # as the person gave it


@pytest.mark.parametrize("values", [(-1, 1, 0), (0.5, 1, 100)])
def test_scores_of_one_conversation_on_another_scale_are_no_labels(values: tuple[float, ...]):
    (case,) = cases(said("t"), *(score("t", "mood", value, source="API") for value in values))
    assert case.labels == {}
    assert case.metadata[FIDELITY] == {OTHER_SCALE: 3}


def test_scores_from_0_to_1_are_labels_of_their_cases():
    first, second = cases(
        *(said("a"), score("a", "good", 1), score("a", "ok", 0.5, source="EVAL")),
        *(said("b"), score("b", "good", 0), score("b", "yes", 1, data_type="BOOLEAN")),
    )
    assert (first.labels, second.labels) == ({"good": 1.0, "ok": 0.5}, {"good": 0.0, "yes": 1.0})
    assert FIDELITY not in first.metadata | second.metadata


def test_the_number_of_a_category_is_no_label():
    named = {"data_type": "CATEGORICAL", "string_value": "bad"}
    (case,) = cases(said("t"), score("t", "tone", 1, **named))
    assert case.labels == {}
    assert case.metadata[FIDELITY] == {"dropped label in words": 1}


def test_the_score_of_a_person_counts_before_that_of_a_judge_in_any_order():
    rows = [
        score("t", "correct", 0, timestamp="2026-11-20 01:00:00"),
        score("t", "correct", 1, source="EVAL", timestamp="2026-11-21 01:00:00"),
        score("t", "correct", 0.5, source="API"),
    ]
    assert [labels(*order) for order in permutations(rows)] == [{"correct": 0.0}] * 6


@pytest.mark.parametrize("source", ["ANNOTATION", "EVAL"])
def test_of_several_scores_of_one_source_the_latest_counts_in_any_order(source: str):
    rows = [
        score("t", "correct", value, source=source, timestamp=timestamp)
        for value, timestamp in ((0.1, None), (0.2, "2026-11-21T01:00:00Z"), (0.3, "2026-11-20"))
    ]
    assert [labels(*order) for order in permutations(rows)] == [{"correct": 0.2}] * 6
