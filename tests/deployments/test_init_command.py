"""`assizes init`: a configuration for what is there, or one line that says why there is none."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.commands.init import InitOptions, write_config
from assizes.deployments.commands.starter import only_reads
from assizes.deployments.settings import validate_config
from assizes.judge.case import Case, Expected, ExpectedCall, ToolSpec
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError, Inconclusive
from assizes.judge.formats import native_line
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.spool import Spool
from tests.builders import agent, call, case, user
from tests.command import assizes
from tests.doubles.s3 import S3

TURNS = """ticket,n,speaker,words,prio
77,1,customer,Where is my order?,1
77,2,bot,It is on its way.,1
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunConfig]:
    """Write a configuration in an empty folder, check that it is one, and return it."""
    monkeypatch.chdir(tmp_path)

    def write(uri: str = "t.jsonl", *cases: Case, **options: Any) -> RunConfig:
        if cases:
            Path(uri).write_bytes(b"".join(map(native_line, cases)))
        file = Path("assizes.toml")
        write_config(uri, file, force=True, options=InitOptions(**options))
        config = validate_config(tomllib.loads(file.read_text("utf-8")), "test")
        resolve_judges(config.judge)
        return config

    return write


def text() -> str:
    return Path("assizes.toml").read_text("utf-8")


def talk(*calls: str, **rest: Any) -> Case:
    turns = [user("Where is it?"), agent("Late.", calls=[call(name) for name in calls])]
    return case(*turns, **rest)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("t.csv", TURNS),
        ("t.tsv", TURNS.replace(",", "\t")),
        ("t.jsonl", '{"q": "A", "output": "B", "question": "Where is it?"}\n'),
    ],
)
def test_a_table_gets_columns_with_which_it_can_be_planned(written, file: str, content: str):
    Path(file).write_text(content)
    config = written(file)
    assert config.transcripts.columns is not None
    with Spool.of(config.transcripts) as spool:
        assert plan_intake(config.transcripts, 10, spool).due == 1
    assert "[transcripts.columns]" in text()


def test_the_columns_are_written_with_comments_and_printed(written, capsys):
    Path("t.csv").write_text(TURNS)
    written("t.csv")
    lines = text().splitlines()
    assert "# Guessed from the names of the columns and from their cells: please check." in lines
    assert 'role = "speaker"                    # who speaks, where a row is a turn' in lines
    assert '# not read: "prio"; tags = [...] keeps columns as tags' in lines
    printed = capsys.readouterr().out
    assert "read 1 cases (table) of 1 file\n" in printed
    assert "columns: id = ticket, turn = n, role = speaker, text = words; please check" in printed


def test_columns_can_be_named_where_the_guess_is_wrong_or_there_is_none(written):
    Path("t.csv").write_text("a,b,c\n1,kunde,Wo ist es?\n1,bot,Unterwegs.\n")
    pairs = ["id=a", "role=b", "text=c", "roles.kunde=user"]
    columns = written("t.csv", columns=pairs).transcripts.columns
    assert columns is not None
    assert columns.model_dump(exclude_defaults=True) == {
        "id": "a",
        "role": "b",
        "text": "c",
        "roles": {"kunde": "user"},
    }


def test_words_for_speakers_that_nobody_knows_are_named_and_written_as_a_comment(written, capsys):
    Path("t.csv").write_text(f"{TURNS}78,1,robo-caller,Hello,1\n78,2,bot,Hi,1\n")
    written("t.csv")
    assert '# roles = { "robo_caller" = "user" }' in text().splitlines()
    printed = capsys.readouterr().out
    assert (
        "1 of 2 records cannot be read:\n  t.csv, record 2: schema: role: 'robo-caller' is not"
        in printed
    )
    assert "robo_caller; say who each is, as in --column roles.robo_caller=user (or" in printed


def test_where_nobody_knows_any_speaker_nothing_is_written_and_the_words_are_named(folder: Path):
    Path("t.csv").write_text("chat,role,text\n1,kunde,Wo ist es?\n1,haus,Hier.\n")
    line = refused(Inconclusive, "t.csv")
    assert "nobody knows these speakers: kunde, haus; say who each is, as in --column" in line


def refused(error: type[AssizesError], uri: str, **options: Any) -> str:
    """The one line that `init` ends with; nothing is written."""
    with pytest.raises(error) as caught:
        write_config(uri, Path("new.toml"), force=False, options=InitOptions(**options))
    assert not Path("new.toml").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_where_nothing_can_be_read_it_says_why_and_writes_nothing(folder: Path):
    (folder / "in").mkdir()
    line = refused(Inconclusive, "in")
    assert line.startswith("nothing was written: no transcripts under 'in'; looked for *.jsonl")
    assert "`assizes demo`" in line
    (folder / "in/a.jsonl").write_text('{"case_id": 1}\nx\n')
    (folder / "in/b.json").write_text('{"some": "thing"}')
    line = refused(Inconclusive, "in")
    assert "no conversation can be read in 2 files under 'in'" in line
    assert "in/a.jsonl, record 2: json: not JSON" in line
    assert "in/b.json: format: not recognised as one of native, tau_bench" in line
    (folder / "t.csv").write_text("id,price\n1,2\n")
    line = refused(Inconclusive, "t.csv")
    assert (
        "as a table with the columns id, price (its first row) it shows no conversation; name the"
        in line
    )
    assert "--column id=ticket --column role=speaker --column text=message" in line
    line = refused(ConfigurationError, "nowhere")
    assert line.startswith("nothing was written: 'nowhere' does not exist; name the place of your")


@pytest.mark.parametrize(
    ("pair", "fault"),
    [
        ("id", "--column 'id': write what the column holds and its name, as in id=ticket"),
        ("id=nr", "--column: unknown column 'nr'; known: n, prio, speaker, ticket, words"),
        ("who=speaker", "--column: unknown setting 'who'; known: agent, "),
        ("conversation=words", "no conversation can be read in 1 file under 't.csv'"),
    ],
)
def test_a_column_that_cannot_be_used_is_refused_with_what_can(folder: Path, pair: str, fault: str):
    (folder / "t.csv").write_text(TURNS)
    assert fault in refused(AssizesError, "t.csv", columns=[pair])


def test_a_place_with_a_date_is_looked_at_on_a_day_and_written_with_its_placeholder(
    folder: Path, written, capsys
):
    (folder / "in/2026-11-20").mkdir(parents=True)
    (folder / "in/2026-11-20/t.jsonl").write_bytes(native_line(talk()))
    place = "in/{date:%Y-%m-%d}/"
    line = refused(ConfigurationError, place)
    assert "say which day to look at: assizes init 'in/{date:%Y-%m-%d}/' --date 20" in line
    day = assizes("init", place, "--date", "2026-11-20", cwd=folder)
    assert day.code == 0, day.err
    assert "next: assizes run -c assizes.toml --date 2026-11-20" in day.out
    assert tomllib.loads(text())["transcripts"]["uri"] == place
    assert written("in").transcripts.uri == "in"
    assert '# uri = "in/{date:%Y-%m-%d}/"' in text().splitlines()
    assert "the names hold days: uri = 'in/{date:%Y-%m-%d}/'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cases", "judges", "others"),
    [
        ([talk()], ["conversation"], "relevance_to_query, safety"),
        (
            [talk(expected=Expected(sql="SELECT 1")), talk(case_id="b")],
            ["conversation", "sql"],
            "relevance_to_query, safety",
        ),
        (
            [talk(expected=Expected(acceptance_criteria="It says late."))],
            ["conversation", "answer_criteria"],
            "run_criteria, relevance_to_query, safety",
        ),
        (
            [talk(expected=Expected(response="Late."))],
            ["conversation", "correctness"],
            "answer_completeness, relevance_to_query, safety",
        ),
        (
            [talk(labels={"reward": 1.0})],
            ["conversation", "recorded"],
            "relevance_to_query, safety",
        ),
        ([talk(labels={"other": 1.0})], ["conversation"], "relevance_to_query, safety"),
        (
            [talk(expected=Expected(trajectory=((ExpectedCall(name="find"),),)))],
            ["conversation", "trajectory"],
            "relevance_to_query, safety",
        ),
    ],
)
def test_the_judges_are_those_for_what_the_data_have(
    written, cases: Sequence[Case], judges: list[str], others: str
):
    assert list(written("t.jsonl", *cases).judge.judges) == judges
    assert f"# others that fit: {others}; `assizes judges` lists" in text()


def test_an_evaluation_set_gets_the_judges_of_answers_and_of_passages(written):
    row = {
        "request": "Where?",
        "response": "There.",
        "expected_response": "Here.",
        "retrieved_context": [{"content": "Here.", "doc_uri": "a.md"}],
        "expected_retrieved_context": [{"doc_uri": "a.md"}],
    }
    Path("t.jsonl").write_text(json.dumps(row))
    config = written("t.jsonl")
    assert set(config.judge.judges) == {
        *("relevance_to_query", "safety", "correctness", "context_sufficiency"),
        *("document_recall", "groundedness", "chunk_relevance"),
    }
    assert config.transcripts.format == "agent_evaluation"
    assert "with what a judge needs: relevance_to_query 1, safety 1," in text()


def test_answers_with_known_tokens_get_the_judge_that_counts_them(written):
    message = {"role": "assistant", "content": "A", "usage": {"prompt_tokens": 3}}
    Path("t.jsonl").write_text(json.dumps({"request": "Q", "trace": [message]}))
    assert "agent_usage" in written("t.jsonl").judge.judges


@pytest.mark.parametrize(
    ("tool", "reads"),
    [
        ("get_order", True),
        ("searchFlights", True),
        ("order_lookup", True),
        ("mcp__shop__list_orders", True),
        ("shop.find", True),
        ("transfer_to_human_agents", True),
        ("think", True),
        ("order_status", True),
        ("cancel_order", False),
        ("update_status", False),
        ("mcp__shop__cancelOrder", False),
        ("run_sql", False),
        ("book_reservation", False),
        ("transfer_money", False),
        ("工具", False),
    ],
)
def test_a_tool_that_only_reads_is_known_by_its_name(tool: str, reads: bool):
    assert only_reads(tool) is reads


def test_tools_that_only_read_are_left_out_of_the_suggested_writes(written):
    written("t.jsonl", talk("get_order", "cancel_order", "book"))
    assert '# writes = ["book", "cancel_order"]' in text().splitlines()
    assert '# left out, for their names say that they read: "get_order"' in text().splitlines()


def test_where_cases_say_which_tools_write_none_is_suggested(written):
    written("t.jsonl", talk("book", tools=(ToolSpec(name="book", writes=True),)))
    assert "# writes = []" in text()
    assert '"book"' not in text()


def test_the_file_explains_thresholds_flagged_passes_and_a_model_of_ones_own(written):
    config = written("t.jsonl", talk())
    assert config.judge.flagged_passes == "apart"
    bare = RunConfig.model_validate(
        {
            "name": "nightly",
            "transcripts": {"uri": "t.jsonl", "format": "native"},
            "judge": {"model": OFFLINE_MODEL},
            "comparison": {"baseline": "latest"},
        }
    )
    assert config.config_hash() == bare.config_hash()
    for line in (
        '# api_base = "http://localhost:11434" # where a model of your own answers',
        "# A run passes when its mean score and its share of passed cases both reach these.",
        "# A run is a regression when it is worse than its baseline by more than one of these.",
        '# such a case is counted apart and not as passed ("apart"), or as a pass ("count").',
    ):
        assert line in text().splitlines()


def test_a_model_is_checked_by_one_call_and_written_with_its_address(written, judge_server, capsys):
    base = judge_server.api_base
    config = written("t.jsonl", talk(), model="openai/m", api_base=base)
    assert (config.judge.model, config.judge.api_base) == ("openai/m", base)
    assert judge_server.stats()["requests"] == 1
    assert "model openai/m answers in " in capsys.readouterr().out


def test_a_parameter_that_a_model_does_not_take_is_left_out_of_a_second_call(
    written, judge_server, capsys
):
    written(
        "t.jsonl", talk(), model="openai/stub-unsupported-schema", api_base=judge_server.api_base
    )
    assert judge_server.stats()["requests"] == 2
    assert "answers in " in capsys.readouterr().out


def test_a_model_that_does_not_keep_to_the_shape_is_written_with_a_warning(
    written, judge_server, capsys
):
    written("t.jsonl", talk(), model="openai/stub-invalid", api_base=judge_server.api_base)
    printed = capsys.readouterr().out
    assert "but not in the shape that judges ask for; try [judge] reply_format" in printed


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("openai/stub-status-401", "authentication: .*; check the key in the environment, such as"),
        ("openai/stub-quota", "quota: .*; check the provider's account, or name another"),
        ("openai/stub-status-503", "unavailable: .*; check that its server runs, and --api-base"),
        ("openai/stub-empty", "empty: .*; check the model's name, its key and --api-base"),
    ],
)
def test_a_model_that_does_not_answer_is_named_with_what_to_do(
    folder: Path, judge_server, model: str, fault: str
):
    (folder / "t.jsonl").write_bytes(native_line(talk()))
    with pytest.raises(
        ConfigurationError, match=f"^nothing was written: model '{model}' does not answer: {fault}"
    ):
        write_config(
            "t.jsonl",
            Path("assizes.toml"),
            force=False,
            options=InitOptions(model=model, api_base=judge_server.api_base),
        )
    assert not Path("assizes.toml").exists()


def test_a_model_without_its_key_and_an_address_without_a_model_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (folder / "t.jsonl").write_bytes(native_line(talk()))
    assert "set OPENAI_API_KEY in the environment" in refused(
        ConfigurationError, "t.jsonl", model="openai/gpt-4.1"
    )
    assert "name it with --model" in refused(ConfigurationError, "t.jsonl", api_base="http://x")


def test_a_model_of_ollama_is_looked_for_at_its_usual_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    assert InitOptions(model="ollama/llama3.1").model_address == "http://localhost:11434"
    assert InitOptions(model="ollama/llama3.1", api_base="http://x").model_address == "http://x"
    monkeypatch.setenv("OLLAMA_API_BASE", "http://y")  # litellm reads it
    assert InitOptions(model="ollama/llama3.1").model_address is None


def test_what_no_run_would_take_is_not_written(folder: Path):
    (folder / "t.jsonl").write_bytes(native_line(talk()))
    line = refused(
        ConfigurationError, "t.jsonl", model="openai/m", api_base="http://ada:secret@host/v1"
    )
    assert line.startswith("nothing was written: ")
    assert "holds a URL with a password" in line
    assert "secret@" not in line


def test_a_file_in_a_folder_that_is_not_there_is_refused_before_anything_is_read(folder: Path):
    with pytest.raises(ConfigurationError, match=r"no/x\.toml cannot be written: no such folder"):
        write_config("nowhere", Path("no/x.toml"), force=False)


def test_a_bucket_elsewhere_is_looked_at_and_written_with_its_endpoint(s3: S3, written):
    bucket = s3.bucket()
    s3.client.put_object(Bucket=bucket, Key="in/t.jsonl", Body=native_line(talk()))
    config = written(f"s3://{bucket}/in/", endpoint_url=s3.endpoint_url)
    assert config.transcripts.storage_options == s3.storage_options
