"""Judges from Python: functions and classes by `module:name`, their options, and what is refused."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assizes.judge.catalog import JudgePanel, fingerprints, judges_listing, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.python_judges import FunctionJudge
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Prompt, ask
from assizes.judge.score import Metric, Score
from tests.builders import agent, case, user


class Reply(BaseModel):
    share: float


CASE = case(user("Hi"), agent("Hello there, how are you?"))

FUNCTION = '''
from assizes.judge.case import Case
from assizes.judge.score import Score

def brief(case: Case, *, longest: int = 10) -> list[Score]:
    """Share of the agent's turns that are short."""
    short = [len(text) <= longest for _, text in case.transcript.agent_texts()]
    value = sum(short) / len(short)
    return [Score("brief", value=value, raw=value, passed=all(short))]
'''

CLASS = '''
from typing import Final
from pydantic import BaseModel
from assizes.judge.families.entry import JudgeOptions
from assizes.judge.protocol import Prompt, Steps, ask
from assizes.judge.score import Metric, Scale, Score

MOOD = Metric("mood", scale=Scale.SCORED, needs=("transcript",), gate="judges")

class Reply(BaseModel):
    level: int

class MoodJudge:
    """Asks for the mood of the agent."""

    name = "mood"
    version = "7"
    metrics = (MOOD,)

    def __init__(self, pass_level: int = 3, words: tuple[str, ...] = ()) -> None:
        if pass_level == 0:
            raise ValueError("pass_level 0 passes everything")
        self.pass_level = pass_level
        self.words = words

    def missing(self, case):
        return None

    def judge(self, case):
        reply = yield from ask(Prompt("How is the mood?", "-"), Reply)
        return [Score.of(MOOD, reply.level, passed=reply.level >= self.pass_level)]

class Told(MoodJudge):
    name = "told"
    metrics = (Metric("told"),)

    class Options(JudgeOptions):
        pass_level: int

    def __init__(self, options):
        super().__init__(options.pass_level)

class Sure(MoodJudge):
    name = "sure"
    offline = True

class Passing(MoodJudge):
    name = "passing"

    def judge(self, case) -> Steps[list[Score]]:
        return super().judge(case)

def passing_on(case) -> "Steps[list[Score]]":
    return MoodJudge().judge(case)

class Unreadable(MoodJudge):
    name = "unreadable"

    def judge(self, case) -> "no type at all":
        return []

ready = MoodJudge(5)
ready.name = "ready"

class Half:
    name = "half"
    version = "1"

    def judge(self, case):
        return []

class Wrong(MoodJudge):
    Options = dict

def safety(case): return []

async def later(case): return []

number = 4
'''


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a module on the path that holds all of the above; unique to the test."""
    name = f"own_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(FUNCTION + CLASS, "utf-8")
    sys.path.append(str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))
    sys.modules.pop(name, None)


def sitting(*judges: str, model: str | None = "openai/m", **options: Any) -> JudgePanel:
    return resolve_judges(JudgeConfig(judges=judges, model=model, options=options))


def refused(*judges: str, **rest: Any) -> str:
    with pytest.raises(ConfigurationError) as error:
        sitting(*judges, **rest)
    assert "\n" not in str(error.value)
    return str(error.value)


def found(bench: JudgePanel) -> list[Score]:
    return Hearing(bench.judges[0], CASE).scores


def test_a_function_is_a_judge_of_its_name_with_one_fraction(module: str):
    bench = sitting(f"{module}:brief", model=None)
    assert bench.metrics == (
        Metric("brief", description="Share of the agent's turns that are short."),
    )
    assert found(bench) == [Score("brief", value=0.0, raw=0.0, passed=False)]


@pytest.mark.row("002-61")
def test_a_function_sits_beside_the_built_in_judges(module: str):
    bench = sitting("recorded", f"{module}:brief", "conversation", model=None)
    assert [judge.name for judge in bench.judges] == ["recorded", "brief", "conversation"]
    assert "brief" in [metric.name for metric in bench.metrics]


def test_keyword_parameters_of_a_function_are_its_options(module: str):
    assert found(sitting(f"{module}:brief", brief={"longest": 100}))[0].passed is True
    assert "[judge.options.brief] longest: Input should be a valid integer" in refused(
        f"{module}:brief", brief={"longest": "far"}
    )
    assert "options: model, temperature, longest" in refused(f"{module}:brief", brief={"most": 1})


def test_a_changed_module_is_another_version(module: str):
    first = fingerprints(sitting(f"{module}:brief"))["judge:brief"]
    Path(sys.modules[module].__file__ or "").write_text(FUNCTION + CLASS + "#", "utf-8")
    assert fingerprints(sitting(f"{module}:brief"))["judge:brief"] != first


def test_a_function_may_declare_metrics_and_a_version():
    def both(case):
        return (Score("one", value=1.0, raw=1.0), Score("two", value=0.0, raw=0.0))

    both.metrics = [Metric("one"), Metric("two")]  # type: ignore[attr-defined]
    both.version = "3"  # type: ignore[attr-defined]
    judge = FunctionJudge(both, "both")
    assert (judge.metrics, judge.version) == ((Metric("one"), Metric("two")), "3")
    assert [score.metric for score in Hearing(judge, CASE).scores] == ["one", "two"]


@pytest.mark.parametrize("returned", [None, 0.5, [1.0], {"score": 1}])
def test_a_function_that_returns_no_scores_is_a_bug_that_says_so(returned: object):
    with pytest.raises(TypeError, match=r"odd returned a \w+, wanted list\[Score\]"):
        Hearing(FunctionJudge(lambda case: returned, "odd"), CASE)


def test_declared_metrics_that_are_none_are_refused_and_not_passed_over():
    def both(case):
        return []

    both.metrics = (Metric("one"), "two")  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match=r"metrics of .*both hold 'two', which is no"):
        FunctionJudge(both, "both")


def test_a_single_score_will_do():
    score = Score("one", value=1.0, raw=1.0)
    assert Hearing(FunctionJudge(lambda case: score, "one"), CASE).scores == [score]


@pytest.mark.row("002-61")
def test_a_class_is_made_with_its_options_and_may_ask(module: str):
    bench = sitting(f"{module}:MoodJudge", mood={"pass_level": 4, "words": ["a", "b"]})
    judge: Any = bench.judges[0]
    assert (judge.pass_level, judge.words, judge.version) == (4, ("a", "b"), "7")
    hearing = Hearing(judge, CASE)
    (question,) = hearing.asks
    hearing.answer([question.reply(level=3)])  # type: ignore[union-attr]
    assert hearing.scores == [Score.of(bench.metrics[0], 3, passed=False)]


def test_a_class_with_options_of_its_own_is_given_them_whole(module: str):
    judge: Any = sitting(f"{module}:Told", told={"pass_level": 2}).judges[0]
    assert judge.pass_level == 2
    assert refused(f"{module}:Told") == (
        "[judge.options.told] pass_level: Field required (given {}); "
        "options: model, temperature, pass_level"
    )


def test_an_instance_sits_as_it_is(module: str):
    judge: Any = sitting(f"{module}:ready").judges[0]
    assert (judge.name, judge.pass_level) == ("ready", 5)


def test_a_judge_that_asks_is_refused_offline_unless_it_says_otherwise(module: str):
    assert refused(f"{module}:MoodJudge", model=None).startswith(
        "[judge] judges: the offline judge has no rule for 'mood'; set [judge] model"
    )
    assert sitting(f"{module}:Sure", model=None).judges[0].name == "sure"
    assert sitting(f"{module}:MoodJudge", mood={"model": "openai/m"}, model=None)


@pytest.mark.parametrize(("attribute", "name"), [("Passing", "passing"), ("passing_on",) * 2])
def test_a_judge_that_returns_the_asks_of_another_is_refused_offline_too(module, attribute, name):
    assert refused(f"{module}:{attribute}", model=None).startswith(
        f"[judge] judges: the offline judge has no rule for {name!r}; set [judge] model"
    )
    assert sitting(f"{module}:Unreadable", model=None).judges[0].name == "unreadable"


@pytest.mark.parametrize(
    ("attribute", "why"),
    [
        ("nothing", "names nothing: module '{module}' ({file}) has no such"),
        ("number", "is a int; wanted module:function or module:Class, e.g. 'my_module:my_judge'"),
        ("later", "is async; a judge does no I/O and is a plain function"),
        ("Half", "does not keep the Judge protocol: it lacks metrics, missing"),
        ("Wrong", "has Options that are no subclass of assizes.judge.families.entry.JudgeOptions"),
        ("safety", "is named 'safety', which is a judge already; choose another name"),
    ],
)
@pytest.mark.row("004-75")
def test_what_is_no_judge_is_refused(module: str, tmp_path: Path, attribute: str, why: str):
    told = why.format(module=module, file=tmp_path / f"{module}.py")
    assert refused(f"{module}:{attribute}") == f"[judge] judges: '{module}:{attribute}' {told}"


def test_a_constructor_that_refuses_its_options_is_quoted(module: str):
    assert refused(f"{module}:MoodJudge", mood={"pass_level": 0}) == (
        f"[judge] judges: '{module}:MoodJudge' cannot be made: pass_level 0 passes everything"
    )


@pytest.mark.parametrize("reference", ["no module:f", ":f", "m:", "m:f:g", "m.:f", "./m.py:f"])
def test_a_reference_is_a_module_and_a_name(reference: str):
    assert refused(reference) == (
        f"[judge] judges: {reference!r}; wanted module:function or module:Class, "
        "e.g. 'my_module:my_judge'"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be imported: ModuleNotFoundError: No module named '{module}'"),
        ("def f(:", "cannot be imported: SyntaxError: "),
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
        ("1 + '1'", "cannot be imported: TypeError: unsupported operand"),
    ],
)
def test_a_module_that_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch, text, why):
    monkeypatch.chdir(tmp_path)
    module = f"broken_{abs(hash((text, why)))}"
    if text is not None:
        (tmp_path / f"{module}.py").write_text(text, "utf-8")
    assert why.format(module=module) in refused(f"{module}:f")


def test_modules_of_the_current_folder_are_found_after_all_others(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "here_only.py").write_text(FUNCTION, "utf-8")
    (tmp_path / "json.py").write_text(FUNCTION, "utf-8")
    assert sitting("here_only:brief").judges[0].name == "brief"
    assert sys.path[-1] == str(tmp_path)
    assert "module 'json'" in refused("json:brief")
    sys.modules.pop("here_only")


def test_two_judges_of_one_name_and_two_of_one_metric_are_refused(module: str):
    assert refused(f"{module}:MoodJudge", f"{module}:MoodJudge") == (
        "[judge] judges: 'mood' is chosen twice"
    )
    assert refused(f"{module}:MoodJudge", f"{module}:Sure") == (
        "[judge] judges: 'mood' and 'sure' both score 'mood'; leave one out, or rename the metric"
    )


def test_they_are_listed_as_the_configuration_makes_them(module: str):
    config = JudgeConfig(
        judges=(f"{module}:MoodJudge", f"{module}:Told", f"{module}:brief"),
        options={"told": {"pass_level": 1}},
    )
    mood, told, brief = judges_listing(config)[-3:]
    assert mood == {
        "name": "mood",
        "description": "Asks for the mood of the agent.",
        "metrics": ["mood"],
        "needs": ["transcript"],
        "needs_ground_truth": False,
        "step": None,
        "scale": ["scored"],
        "gate": "judges",
        "offline": False,
        "options": {"model": None, "temperature": None, "pass_level": 3, "words": []},
    }
    assert told["options"]["pass_level"] is None
    assert (brief["offline"], brief["options"]["longest"]) == (True, 10)


def test_a_court_with_them_can_be_sent_to_another_process(module: str):
    bench = pickle.loads(pickle.dumps(sitting(f"{module}:brief", f"{module}:MoodJudge")))
    assert [judge.name for judge in bench.judges] == ["brief", "mood"]


def test_a_function_that_asks_is_a_judge_too():
    def asks(case):
        reply = yield from ask(Prompt("s", "u"), Reply)
        return [Score("asks", value=reply.share, raw=reply.share)]

    hearing = Hearing(FunctionJudge(asks, "asks"), CASE)
    hearing.answer([Reply(share=0.5)])
    assert hearing.scores == [Score("asks", value=0.5, raw=0.5)]


def test_a_parameter_whose_type_cannot_be_had_takes_any_value(tmp_path: Path):
    text = "from __future__ import annotations\ndef odd(case, *, size: Absent = 1): return []\n"
    (tmp_path / "own_untyped.py").write_text(text, "utf-8")
    sys.path.append(str(tmp_path))
    try:
        bench = sitting("own_untyped:odd", odd={"size": "any"})
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("own_untyped")
    assert bench.judges[0].name == "odd"


def test_a_function_written_in_c_has_no_options_and_one_version():
    assert "options: model, temperature" in refused("builtins:iter", iter={"size": 1})
    assert sitting("builtins:iter").judges[0].version == "1"
