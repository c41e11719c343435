"""The rules of the offline judge: each type of evidence has one, or the ask fails."""

from __future__ import annotations

import pytest

from assizes.judge.errors import ModelError
from assizes.judge.heuristic.answers import ANSWERS, HeuristicModel
from assizes.judge.protocol import Ask, Prompt
from tests.judge.engine.calls import Reply


async def test_evidence_without_a_rule_is_a_failed_ask():
    with pytest.raises(ModelError, match="no_offline_rule: the offline judge has no rule for str"):
        await HeuristicModel().complete(Ask(Prompt("s", "u"), Reply, "words"))


def test_each_kind_of_evidence_has_one_rule():
    kinds = [kind.__name__ for kind in ANSWERS]
    assert kinds == [
        "ConversationEvidence",
        "SqlEvidence",
        "SearchEvidence",
        "VisualizationEvidence",
        "ResponseEvidence",
        "DecomposeEvidence",
        "CoverageEvidence",
        "RatingEvidence",
        "PairEvidence",
        "DiagnosisEvidence",
        "RunCriteriaEvidence",
    ]
