"""Expected values from a separate file: how a cell is read, and which values it replaces."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from assizes.judge.case import Expected
from assizes.judge.config.transcripts import GroundTruthConfig
from assizes.judge.errors import DataError
from assizes.judge.ground_truth import add_ground_truth, truth_of
from tests.builders import agent, case, user


def test_a_name_that_is_no_expected_value_is_refused_with_those_there_are():
    assert GroundTruthConfig(columns={"facts": "Facts"}).columns == {"facts": "Facts"}
    with pytest.raises(ValidationError, match="'answer' is no expected value; there are outcomes"):
        GroundTruthConfig(columns={"answer": "Answer"})


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("response", '{"not": "read"}', '{"not": "read"}'),
        ("facts", "one fact", ("one fact",)),
        ("facts", '["one", "two"]', ("one", "two")),
        ("facts", ["one"], ("one",)),
        ("has_chart", " True ", True),
        ("has_chart", "false", False),
        ("outcomes", "It is booked", ("It is booked",)),
    ],
)
def test_a_cell_is_read_as_its_value_needs_it(name, cell, value):
    assert getattr(truth_of({"c": cell}, {name: "c"}), name) == value


@pytest.mark.parametrize("cell", [None, ""])
def test_an_empty_cell_says_nothing(cell):
    assert truth_of({"a": cell}, {"facts": "a", "response": "b"}).model_fields_set == set()


@pytest.mark.parametrize(
    ("name", "cell", "code", "message"),
    [
        ("facts", '["one"', "json", "column 'c': not JSON"),
        ("outcomes", "[1]", "schema", "outcomes.0: "),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_by_its_column(name, cell, code, message):
    with pytest.raises(DataError) as refused:
        truth_of({"c": cell}, {name: "c"})
    assert refused.value.code == code
    assert message in refused.value.detail


OWN = Expected(outcomes=("It is booked",), response="Booked.")


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (Expected(facts=("f",)), (("It is booked",), None, ("f",))),
        (Expected(response="Done."), (("It is booked",), "Done.", ())),
        (Expected(outcomes=()), ((), "Booked.", ())),
        (Expected(), (("It is booked",), "Booked.", ())),
    ],
)
def test_what_is_given_takes_the_place_of_the_cases_own_and_a_response_that_of_facts(
    truth, expected
):
    joined = add_ground_truth(case(user("Hi"), agent("Yo"), expected=OWN), truth).expected
    assert (joined.outcomes, joined.response, joined.facts) == expected
