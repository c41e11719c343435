"""What `make mutation` makes of the words of mutmut, and explanations that still meet the code."""

from __future__ import annotations

from tests.mutation import Change, Mutant, change, explained, findings, results, scores
from tests.mutation.__main__ import ROOT

LISTED = """
    assizes.judge.verdicts.verdict.x__level__mutmut_1: killed
    assizes.judge.verdicts.verdict.x__level__mutmut_2: survived
    assizes.judge.comparison.compare.x\u01c1RunData\u01c1why__mutmut_1: timeout
"""
SHOWN = """# assizes.judge.verdicts.verdict.x__level__mutmut_2: survived
--- judge/verdicts/verdict.py
+++ judge/verdicts/verdict.py
@@ -1,3 +1,3 @@
 def _level(score: Score) -> float:
-    return score.value
+    return (
+        None
"""
LEVEL = Mutant("assizes.judge.verdicts.verdict", "x__level", 2, "survived")
CHANGE = Change("assizes.judge.verdicts.verdict", "return score.value", "return ( None")


def test_the_lists_and_diffs_of_mutmut_are_read():
    found = results(LISTED)
    assert found[1] == LEVEL
    assert LEVEL.full_name == "assizes.judge.verdicts.verdict.x__level__mutmut_2"
    assert [one.end for one in found] == ["killed", "survived", "timeout"]
    assert change("assizes.judge.verdicts.verdict", SHOWN) == CHANGE


def test_the_score_is_killed_of_all_and_a_timeout_is_no_kill():
    assert list(scores(results(LISTED))) == [
        "assizes.judge.comparison.compare    0 /    1 killed, 0.0%",
        "assizes.judge.verdicts.verdict      1 /    2 killed, 50.0%",
    ]


def test_a_survivor_is_a_finding_unless_it_is_explained():
    assert list(findings({LEVEL: CHANGE}, {CHANGE: "why"})) == []
    (finding,) = findings({LEVEL: CHANGE}, {})
    assert finding == (
        "assizes.judge.verdicts.verdict.x__level__mutmut_2 survived: 'return score.value' became 'return ( None'"
    )


def test_an_explanation_of_what_was_killed_is_a_finding():
    (finding,) = findings({}, {CHANGE: "why"})
    assert finding.endswith("is explained, but did not survive")


def test_every_explanation_says_why_and_is_of_a_line_that_still_stands():
    for one, why in explained().items():
        path = ROOT / f"{one.module.removeprefix('assizes.').replace('.', '/')}.py"
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert one.was in text, one
        assert len(why) > 10, one
