"""The tests of a rubric file: no judge reads them, and each must expect a level that there is."""

from __future__ import annotations

import pytest

from assizes.judge.alignment.rubric_files import RubricFile
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.toml_judges import CustomRubric, own_judge
from assizes.judge.rubrics.rubric import built_in_text, metric_of, parse_rubric

OWN = 'kind = "ANSWER"\nname = "helpful"\ndescription = "Helpful?"\nquestion = "Is it helpful?"\n'
TEST = '\n[[tests]]\nrequest = "When?"\nresponse = "On Monday."\nexpected = "{}"\n'


def own(text: str) -> CustomRubric:
    table = RubricFile("helpful", text, None).table
    assert isinstance(table, CustomRubric)
    return table


def test_tests_change_neither_the_prompt_nor_the_hash_of_a_judge():
    bare, tested = own_judge(own(OWN)), own_judge(own(OWN + TEST.format("yes")))
    assert bare.prompts == tested.prompts
    assert bare.metric.rubric_hash == tested.metric.rubric_hash
    assert len(own(OWN + TEST.format("yes")).tests) == 1


def test_tests_change_neither_the_text_nor_the_hash_of_a_metric():
    text = built_in_text("tool_routing")
    bare = metric_of(parse_rubric(text, "a"))
    assert metric_of(parse_rubric(text + TEST.format("4"), "b")) == bare


@pytest.mark.parametrize("level", ["maybe", "5", ""])
def test_a_test_expects_a_level_that_the_rubric_has(level: str):
    with pytest.raises(ConfigurationError) as caught:
        own(OWN + TEST.format(level))
    assert "\n" not in str(caught.value)
    assert "none of yes, no" in str(caught.value) or "expected" in str(caught.value)
