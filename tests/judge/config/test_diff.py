from __future__ import annotations

import pytest

from assizes.judge.config.gates import ThresholdsConfig
from assizes.judge.config.judging import JudgeConfig, MetricSelection
from assizes.judge.config.run import FieldChange, RunConfig, config_diff, judge_changes
from assizes.judge.config.transcripts import TranscriptsConfig


def snapshot(**tables):
    tables.setdefault("transcripts", TranscriptsConfig(uri="a/"))
    return RunConfig(**tables).model_dump(mode="json")


def judge(*metrics, **rest):
    return JudgeConfig(metrics=[MetricSelection(metric=n, weight=w) for n, w in metrics], **rest)


def test_equal_snapshots_do_not_differ():
    assert config_diff(snapshot(), snapshot()) == []


@pytest.mark.parametrize(
    ("tables", "field", "values"),
    [
        ({"name": "other"}, "name", ("evaluation", "other")),
        ({"judge": JudgeConfig(model="m")}, "judge.model", (None, "m")),
        ({"judge": JudgeConfig(provider="p")}, "judge.provider", (None, "p")),
        (
            {"thresholds": ThresholdsConfig(metrics_pass_threshold=95)},
            "thresholds.metrics_pass_threshold",
            (80.0, 95.0),
        ),
        ({"transcripts": TranscriptsConfig(uri="b/")}, "transcripts.uri", ("a/", "b/")),
    ],
)
def test_a_changed_setting_is_named_with_both_values(tables, field, values):
    assert config_diff(snapshot(), snapshot(**tables)) == [
        FieldChange(field=field, baseline=values[0], candidate=values[1])
    ]


def test_chosen_metrics_are_compared_one_by_one_with_their_weights():
    before = snapshot(judge=judge(("tool_routing", 1.0), ("information_gathering", None)))
    after = snapshot(judge=judge(("tool_routing", 2.0), ("task_completion", None)))
    assert config_diff(before, after) == [
        FieldChange(
            field="judge.metrics.information_gathering", baseline="default", candidate=None
        ),
        FieldChange(field="judge.metrics.task_completion", baseline=None, candidate="default"),
        FieldChange(field="judge.metrics.tool_routing", baseline=1.0, candidate=2.0),
    ]


def test_where_rows_go_and_how_fast_makes_no_difference():
    after = snapshot(
        transcripts=TranscriptsConfig(uri="a/", storage_options={"endpoint_url": "http://x"}),
        store={"uri": "lake/"},
        limits={"max_in_flight": 1},
        comparison={"baseline": "latest"},
    )
    assert config_diff(snapshot(), after) == []


def test_fingerprints_count_where_both_snapshots_carry_them():
    before = {**snapshot(), "fingerprints": {"conversation": {"rubric": "aa"}}}
    after = {**snapshot(), "fingerprints": {"conversation": {"rubric": "bb"}}}
    changes = config_diff(before, after)
    assert changes == [
        FieldChange(field="fingerprints.conversation.rubric", baseline="aa", candidate="bb")
    ]
    assert judge_changes(changes) == ["fingerprints.conversation.rubric"]
    assert config_diff(before, snapshot()) == []


def test_only_the_judges_own_settings_make_it_another_judge():
    changes = config_diff(snapshot(), snapshot(name="other", judge=JudgeConfig(temperature=0)))
    assert [change.field for change in changes] == ["judge.temperature", "name"]
    assert judge_changes(changes) == ["judge.temperature"]
