"""Advice about a failure code."""

from __future__ import annotations

import re
from pathlib import Path

from assizes.judge import heuristic
from assizes.judge.verdicts.fixes import fix_for

RULES = Path(heuristic.__file__).parent / "conversation.py"
CODE = re.compile(r'RuleFinding\((?:[^()]|\([^()]*\))*?"([a-z]+(?:_[a-z]+)*)"')


def test_every_code_of_the_rules_without_a_model_has_advice():
    codes = set(CODE.findall(RULES.read_text("utf-8")))
    assert {"wrong_state_change", "verbose", "ungrounded_claim"} <= codes
    assert [code for code in sorted(codes) if fix_for("", code) is None] == []


def test_advice_is_whole_sentences_and_fits_beside_a_case():
    texts = {fix_for("", code) or "" for code in ("verbose", "wrong_parameter", "unfinished")}
    assert len(texts) == 3
    assert all(text.endswith(".") and len(text) < 200 for text in texts)


def test_a_code_of_the_judges_own_has_the_advice_of_its_metric():
    assert fix_for("response_delivery", "too_many_emoji") == fix_for("", "verbose")


def test_there_is_no_advice_where_none_would_fit():
    assert fix_for("own_metric", "own_code") is None
    assert fix_for("task_completion", None) is None
