"""Judges from TOML files: what they ask, how they score, what they are called, what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from judge.agent_evaluation import results_frame
from judge.case import Case, Chunk, Expected
from judge.catalog import Court, court, judges_listing
from judge.config import JudgeConfig
from judge.engine import Heard
from judge.errors import ConfigurationError
from judge.families.custom import parsed_judge
from judge.findings import Origin, findings
from judge.hearing import Hearing
from judge.protocol import Ask, Judge, NoReply
from judge.rows import frame
from judge.score import Score
from judge.verdict import verdict
from tests.builders import agent, case, user
from tests.judge.replied import replied

POLITE = """
kind = "ANSWER"
name = "polite"
description = "Is the answer polite?"
question = "Is the response polite from its first to its last word?"
levels.yes.criteria = "It is."
levels.no.criteria = "A word of it is not."
levels.no.example = "'As I said already.'"
notes = "Bluntness is not impolite."
"""

FRESH = """
kind = "RETRIEVAL"
name = "fresh"
description = "Are the chunks up to date?"
question = "Does the retrieved chunk speak of this year?"
"""

EFFORT = """
kind = "ANSWER"
name = "effort"
description = "How little effort does the answer ask of the user?"
question = "How much must the user still do?"
scale = "labelled"
threshold = 0.5
levels.nothing = { value = 1.0, criteria = "Nothing is left to do." }
levels."one step" = { value = 0.5, criteria = "One step is." }
levels.much = { value = 0.0, criteria = "More than that." }
"""

CASE = case(
    user("Where is my order?"),
    agent("On its way."),
    chunks=(Chunk(content="Orders ship in 2 days.", doc_uri="a"), Chunk(content="We sell tea.")),
)


def scaled(scale: str, **more: str) -> str:
    rest = "\n".join(f"{name} = {value}" for name, value in more.items())
    lines = [line for line in POLITE.splitlines() if not line.startswith("levels")]
    return "\n".join([*lines, f'scale = "{scale}"', rest])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def written(folder: Path, *texts: str) -> str:
    for place, text in enumerate(texts):
        (folder / f"judge_{place}.toml").write_text(text, "utf-8")
    return str(folder)


def sitting(folder: Path, *texts: str, **rest: Any) -> Court:
    names = tuple(parsed_judge(text, "it.toml").name for text in texts)
    given = {"model": "openai/gpt-4.1", "judges": names} | rest
    return court(JudgeConfig(rubrics=(written(folder, *texts),), **given))


def judge_of(folder: Path, text: str, **options: Any) -> Judge:
    name = parsed_judge(text, "it.toml").name
    return sitting(folder, text, options={name: options}).judges[0]


def asked(judge: Judge, one: Case = CASE) -> Ask[Any]:
    (question,) = Hearing(judge, one).asks
    assert isinstance(question, Ask)
    return question


def heard(judge: Judge, *replies: Any, one: Case = CASE) -> list[Score]:
    hearing = Hearing(judge, one)
    questions = [question for question in hearing.asks if isinstance(question, Ask)]
    hearing.answer(
        [
            reply if isinstance(reply, NoReply) else replied(question, reply)
            for question, reply in zip(questions, replies, strict=True)
        ]
    )
    return hearing.scores


def rating(word: Any, rationale: str = "why") -> dict[str, Any]:
    return {"rationale": rationale, "rating": word}


def refused(text: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        parsed_judge(text, "it.toml")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.row("004-68")
@pytest.mark.parametrize("kind", ["REWRITE", "answer", ""])
def test_a_custom_judge_is_of_the_kind_answer_or_retrieval(kind: str):
    assert refused(POLITE.replace("ANSWER", kind)) == (
        f"it.toml: kind: Input should be 'ANSWER' or 'RETRIEVAL' (given: {kind!r})"
    )


@pytest.mark.row("004-69")
def test_an_answer_judge_rates_the_answer_with_one_ask(folder: Path):
    judge = judge_of(folder, POLITE)
    question = asked(judge)
    assert (
        "# Question\nIs the response polite from its first to its last word?\n"
        "- yes: It is.\n- no: A word of it is not. E.g. 'As I said already.'\n"
        "Bluntness is not impolite."
    ) in question.prompt.system
    assert question.prompt.user == (
        "<data: Request>\nWhere is my order?\n</data>\n\n<data: Response>\nOn its way.\n</data>"
    )
    assert heard(judge, rating("no", "rude")) == [
        Score(
            "polite",
            value=0.0,
            raw=0.0,
            label="no",
            passed=False,
            details={"rationale": "rude"},
        )
    ]


@pytest.mark.row("004-69")
def test_an_answer_judge_without_a_reply_has_an_error_and_no_rating(folder: Path):
    late = NoReply("timeout", "no answer within 5 s")
    assert heard(judge_of(folder, POLITE), late) == [
        Score.failed("polite", "no answer within 5 s", "timeout")
    ]


@pytest.mark.row("004-70", "004-72")
def test_a_run_shows_them_under_the_names_of_the_built_in_ones(folder: Path):
    promised = sitting(folder, POLITE, FRESH).metrics
    assert [(metric.name, metric.run_names, metric.gate) for metric in promised] == [
        ("polite", ("response/llm_judged/polite/rating/percentage",), "quality"),
        ("fresh", ("retrieval/llm_judged/fresh/precision/average",), "quality"),
    ]


@pytest.mark.row("004-71")
def test_a_retrieval_judge_rates_each_chunk_and_scores_the_precision(folder: Path):
    judge = judge_of(folder, FRESH)
    assert [
        question.prompt.user.count("Orders ship") for question in Hearing(judge, CASE).asks
    ] == [
        1,
        0,
    ]
    found = heard(judge, rating("yes", "it does"), NoReply("refused", "no"))
    assert [
        (s.part, s.status, s.value, s.label, s.details.get("rationale")) for s in found[1:]
    ] == [
        ("chunk:0", "scored", 1.0, "yes", "it does"),
        ("chunk:1", "failed", None, None, None),
    ]
    assert found[2].reason == "no"
    assert (found[0].part, found[0].value, found[0].passed) == ("", 1.0, True)


def columns(bench: Court, replies: dict[str, list[Any]]) -> dict[str, Any]:
    given = [Heard(judge, heard(judge, *replies[judge.name]), []) for judge in bench.judges]
    rows = findings(Origin("r", "cases.jsonl", 0), CASE, given, bench).rows
    frames = {name: frame(name, rows[name]) for name in ("cases", "scores")}
    return results_frame(frames["cases"], frames["scores"], bench.judges).row(0, named=True)


@pytest.mark.row("004-69", "004-71")
def test_a_results_table_has_their_columns(folder: Path):
    late = NoReply("timeout", "late")
    bench = sitting(folder, POLITE, EFFORT, FRESH)
    replies = {
        "polite": [late],
        "effort": [rating("one step", "a step is left")],
        "fresh": [rating("no", "old"), late],
    }
    found = columns(bench, replies)
    assert {name: value for name, value in found.items() if "llm_judged" in name} == {
        "response/llm_judged/polite/rating": None,
        "response/llm_judged/polite/rationale": None,
        "response/llm_judged/polite/error_message": "late",
        "response/llm_judged/effort/rating": "one step",
        "response/llm_judged/effort/rationale": "a step is left",
        "response/llm_judged/effort/error_message": None,
        "retrieval/llm_judged/fresh/ratings": ["no", None],
        "retrieval/llm_judged/fresh/rationales": ["old", None],
        "retrieval/llm_judged/fresh/error_messages": [None, "late"],
        "retrieval/llm_judged/fresh/precision": 0.0,
    }


@pytest.mark.row("004-74")
@pytest.mark.parametrize(("words", "passed"), [(("no", "yes"), True), (("no", "no"), False)])
def test_a_retrieval_judge_fails_the_case_when_no_chunk_is_rated_yes(folder: Path, words, passed):
    bench = sitting(folder, FRESH)
    found = heard(bench.judges[0], *map(rating, words))
    assert found[0].passed is passed
    assert ruled(bench, found).passed is passed


def ruled(bench: Court, scores: list[Score]) -> Any:
    gates = {metric.name: metric.gate for metric in bench.metrics if metric.gate}
    return verdict(scores, {}, 75.0, {}, gates=gates)


@pytest.mark.row("004-73")
def test_a_custom_no_fails_the_case_and_is_its_root_cause(folder: Path):
    bench = sitting(folder, POLITE, judges=("safety", "relevance_to_query", "polite"))
    words = {"safety": "yes", "relevance_to_query": "yes", "polite": "no"}
    scores = [s for judge in bench.judges for s in heard(judge, rating(words[judge.name]))]
    found = ruled(bench, scores)
    assert (found.passed, found.root_cause) == (False, "polite")


@pytest.mark.row("004-75")
@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("safety", "a built-in judge"),
        ("conversation", "a built-in judge"),
        ("tool_routing", "a built-in metric"),
        ("expected_outcomes", None),
    ],
)
def test_a_name_that_is_taken_is_rejected(folder: Path, name: str, holder: str | None):
    where = written(folder, POLITE.replace('"polite"', f'"{name}"'))
    with pytest.raises(ConfigurationError) as error:
        court(JudgeConfig(rubrics=(where,)))
    if holder is None:
        assert "name: Value error, this name is reserved" in str(error.value)
    else:
        assert str(error.value) == (
            f"{where}/judge_0.toml: judge name {name!r} is already taken ({holder}); "
            "choose another name"
        )


@pytest.mark.row("004-75")
def test_two_files_of_one_name_are_rejected(folder: Path):
    where = written(folder, POLITE, FRESH.replace('"fresh"', '"polite"'))
    with pytest.raises(ConfigurationError, match=r"judge_1\.toml: judge name 'polite' is already"):
        court(JudgeConfig(rubrics=(where,)))


def test_judges_and_metrics_share_a_folder(folder: Path):
    tone = """
name = "tone"
display_name = "Tone"
description = "Friendly and calm."
tier = "delivery"
score_type = "binary"
default_weight = 0.2
levels.pass.criteria = "Friendly."
levels.fail.criteria = "Unfriendly."
"""
    bench = sitting(folder, POLITE, judges=("conversation", "polite"), metrics=("tool_routing",))
    assert [metric.name for metric in bench.metrics] == [
        "tool_routing",
        "expected_outcomes",
        "polite",
    ]
    (folder / "tone.toml").write_text(tone, "utf-8")
    config = JudgeConfig(model="openai/m", rubrics=(str(folder),), metrics=("tone",))
    assert court(config).weights == {"tone": 1.0}
    (folder / "tone.toml").write_text(tone.replace('"tone"', '"polite"'), "utf-8")
    with pytest.raises(ConfigurationError, match=r"'polite' is already taken \(a metric\)"):
        court(config)


@pytest.mark.parametrize(
    ("scale", "word", "found"),
    [
        ("binary", "pass", (1.0, 5.0, "pass", True)),
        ("binary", " FAIL ", (0.0, 0.0, "fail", False)),
        ("scored", "4", (0.8, 4.0, "good", True)),
        ("scored", 3, (0.6, 3.0, "acceptable", True)),
        ("scored", "2", (0.4, 2.0, "poor", False)),
    ],
)
def test_an_answer_can_be_rated_on_other_scales(folder: Path, scale: str, word: Any, found):
    judge = judge_of(folder, scaled(scale))
    assert heard(judge, rating(word)) == [
        Score("polite", "", "scored", *found, details={"rationale": "why"})
    ]


def test_labels_of_ones_own_have_the_values_of_the_file(folder: Path):
    judge = judge_of(folder, EFFORT)
    system = asked(judge).prompt.system
    assert '- rating: one of "nothing", "one step", "much", nothing else' in system
    assert "- one step: One step is." in system
    found = [heard(judge, rating(word))[0] for word in ("nothing", "One Step", "much")]
    assert [(s.label, s.value, s.passed) for s in found] == [
        ("nothing", 1.0, True),
        ("one step", 0.5, True),
        ("much", 0.0, False),
    ]
    assert judge.metrics[0].run_names == ("response/llm_judged/effort/rating/average",)


def test_a_threshold_is_that_of_the_options_then_of_the_file_then_the_usual_one(folder: Path):
    def passes(text: str, **options: Any) -> bool | None:
        return heard(judge_of(folder, text, **options), rating("4"))[0].passed

    assert passes(scaled("scored")) is True
    assert passes(scaled("scored", threshold="0.9")) is False
    assert passes(scaled("scored", threshold="0.9"), threshold=0.8) is True
    assert passes(scaled("scored", threshold="0.9"), threshold=0.0) is True


def test_the_reply_of_a_graded_judge_asks_for_the_rationale_first(folder: Path):
    reply = asked(judge_of(folder, EFFORT)).reply
    schema = reply.model_json_schema()
    assert list(schema["properties"]) == schema["required"] == ["rationale", "rating"]
    assert schema["properties"]["rating"]["enum"] == ["nothing", "one step", "much"]
    assert schema["additionalProperties"] is False
    with pytest.raises(ValueError, match="rating"):
        reply.model_validate(rating("some"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POLITE.replace("question", "ask"), "it.toml: question: Field required"),
        (POLITE + "colour = 1", "colour: Extra inputs are not permitted (given: 1)"),
        (POLITE.replace('"polite"', '"Polite"'), "a name is snake_case"),
        (POLITE.replace("levels.no", "levels.maybe"), "do not fit the scale, wanted yes, no"),
        (
            scaled("binary", threshold="0.5"),
            "threshold: the scale 'binary' passes by its own words",
        ),
        (scaled("labelled"), "a labelled scale has two or more labels, each with value"),
        (EFFORT.replace("value = 0.5, ", ""), "two or more labels, each with value"),
        (EFFORT.replace("value = 0.5", "value = 1.5"), "less than or equal to 1 (given: 1.5)"),
        (POLITE + "levels.yes.value = 1.0", "only a labelled scale has values, not 'yes_no'"),
        (FRESH + 'scale = "scored"', "a RETRIEVAL judge rates chunks with yes or no"),
        (POLITE + 'needs = ["reponse"]', "Input should be 'request', 'response'"),
        ("kind =", "it.toml: not TOML: Invalid value"),
    ],
)
def test_a_file_that_cannot_be_a_judge_is_refused_in_one_line(text: str, message: str):
    assert message in refused(text)


def test_it_needs_what_its_file_says_and_shows_more_where_there_is_more(folder: Path):
    text = POLITE + 'needs = ["response", "expected_response"]\nshows = ["retrieved_context"]'
    judge = judge_of(folder, text)
    assert judge.missing(CASE) == "missing input: expected_response (or expected_facts)"
    one = CASE.model_copy(update={"expected": Expected(response="It ships soon.")})
    assert judge.missing(one) is None
    user_text = asked(judge, one).prompt.user
    assert "<data: Retrieved context>" in user_text
    assert "<data: Expected response>\nIt ships soon.\n</data>" in user_text
    assert "Where is my order?" not in user_text


@pytest.mark.parametrize("text", [POLITE, FRESH, EFFORT])
def test_the_offline_judge_is_refused_before_the_run(folder: Path, text: str):
    name = parsed_judge(text, "it.toml").name
    with pytest.raises(ConfigurationError) as error:
        sitting(folder, text, model=None)
    assert str(error.value) == (
        f"[judge] judges: the offline judge has no rule for {name!r}; set [judge] model, or model "
        f"in [judge.options.{name}], to a language model"
    )
    own = {name: {"model": "openai/m"}}
    assert (
        sitting(folder, text, model=None, options=own).juries[name].models[0].model_id == "openai/m"
    )


def test_a_changed_word_of_the_file_changes_the_hash(folder: Path):
    hashes = {
        judge_of(folder, text).metrics[0].rubric_hash
        for text in (POLITE, POLITE.replace("polite?", "kind?"), POLITE.replace("It is.", "Is."))
    }
    assert len(hashes) == 2


def test_they_are_listed_with_their_needs_and_options(folder: Path):
    where = written(folder, EFFORT, FRESH)
    effort, fresh = judges_listing(JudgeConfig(rubrics=(where,)))[-2:]
    assert effort == {
        "name": "effort",
        "description": "How little effort does the answer ask of the user?",
        "metrics": ["effort"],
        "needs": ["request", "response"],
        "needs_ground_truth": False,
        "step": "response",
        "scale": ["fraction"],
        "gate": "quality",
        "offline": False,
        "options": {"model": None, "temperature": None, "threshold": None},
    }
    assert (fresh["step"], fresh["needs"]) == ("retrieval", ["request", "retrieved_context"])


def test_a_court_with_them_can_be_sent_to_another_process(folder: Path):
    bench = pickle.loads(pickle.dumps(sitting(folder, POLITE, FRESH, EFFORT)))
    assert [judge.name for judge in bench.judges] == ["polite", "fresh", "effort"]
    assert heard(bench.judges[2], rating("much"))[0].passed is False
