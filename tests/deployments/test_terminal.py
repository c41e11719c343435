"""Hostile transcripts and verdicts on a terminal: only printable text, and no line of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.deployments.commands.case import explain_metric, show_case
from assizes.deployments.commands.stores import CaseSelection
from assizes.deployments.terminal import json_text, printable
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.builders import agent, call, case, result, user
from tests.command import ROOT, assizes
from tests.hostile import ESCAPES
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

TOML = """
name = "escapes"
[transcripts]
uri = "in"
[store]
uri = "duckdb:///s.duckdb"
[judge]
flagged_passes = "count"
"""


def unprintable(text: str) -> list[str]:
    """The characters of a text that a terminal would act on, or show in another order."""
    return [char for char in text if not (char.isprintable() or char == "\n")]


def hostile(place: int, text: str) -> bytes:
    return native_line(
        case(
            user(text),
            agent(text, calls=[call(text, **{text or "x": text})]),
            result(text, name=text, is_error=True),
            agent(text),
            case_id=f"{place} {text}",
            agent=text,
            tags={"domain": text},
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Path:
    place = tmp_path_factory.mktemp("escapes")
    (place / "in").mkdir()
    body = b"".join(hostile(number, text) for number, text in enumerate(ESCAPES))
    broken = "".join(f"{{{text}\n" for text in ESCAPES if "\n" not in text and "\r" not in text)
    (place / "in" / "t.jsonl").write_bytes(body + broken.encode())
    (place / "assizes.toml").write_text(TOML)
    env = {
        "PREFECT_API_URL": prefect_server,
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO",
    }
    done = assizes("run", "--verbose", "--run-id", "said", cwd=place, env=env)
    assert (done.code, "Finished in state" in done.err) == (0, True), done
    assert unprintable(done.out + done.err) == []
    judged = [
        Said(f"{number} {text}", (1, 2), done=False, outcomes=((text, False, text),), code=text,
             why=text, agent=text, tags={"domain": text})
        for number, text in enumerate(ESCAPES)
    ]  # fmt: skip
    judged += [Said(f"lost {text}", (0, 0), error=f"timeout: {text}") for text in ESCAPES[:9]]
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, run(judged, run_id="judged"))
        put(store, run(judged[::-1][9:], run_id="before"))
    return place


@pytest.mark.full
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("show", "said"), 0),
        (("runs",), 0),
        (("compare", "before", "judged", "--allow"), 4),  # too little of `judged` has a score
        (("report", "judged", "--brief"), 0),
        (("sql", "s.duckdb", "select case_id, summary, agent, tags from cases"), 0),
        (("sql", "s.duckdb", "select * from scores", "--json"), 0),
        (("sql", "s.duckdb", "select * from cases", "--csv"), 0),
        (("sql", "s.duckdb", "select excerpt, detail from rejects"), 0),
        (("export-metrics", "judged"), 0),
        (("trends", "--last", "2"), 0),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_a_command_prints_nothing_that_steers_a_terminal(folder: Path, args, code: int):
    assert len(ESCAPES) >= 60
    answer = assizes(*args, cwd=folder)
    assert unprintable(answer.out + answer.err) == []
    assert answer.code == code, answer


@pytest.mark.parametrize("run_id", ["said", pytest.param("judged", marks=pytest.mark.full)])
@pytest.mark.parametrize("as_json", [False, True])
def test_no_case_and_no_score_steers_a_terminal(folder: Path, capsys, run_id: str, as_json: bool):
    uri = f"duckdb:///{folder}/s.duckdb"
    for number, text in enumerate(ESCAPES):
        case_id = f"{number} {text}"
        show_case(CaseSelection(run_id, case_id), None, uri, as_json=as_json)
        shown = capsys.readouterr().out
        explain_metric(CaseSelection(run_id, case_id), "tool_routing", None, uri, as_json=as_json)
        explanation = capsys.readouterr().out
        assert unprintable(shown + explanation) == []
        if as_json:
            assert json.loads(shown)["cases"][0]["case_id"] == case_id
            assert json.loads(explanation)["case_id"] == case_id
            continue
        ours = [
            line
            for line in (shown + explanation).splitlines()
            if line.startswith(("REGRESSION", "assizes:"))
        ]
        assert ours == []


@pytest.mark.parametrize("args", [("show", "{}"), ("case", "judged", "{}"), ("report", "{}")])
def test_an_error_that_quotes_it_is_one_printable_line(folder: Path, args):
    text = "".join(ESCAPES).replace("\x00", "")
    answer = assizes(*(argument.replace("{}", f"no {text}") for argument in args), cwd=folder)
    assert answer.code == 2
    assert unprintable(answer.err) == []
    assert answer.err.count("\n") == 1


def test_markup_is_shown_and_not_read(folder: Path):
    query = "select '[bold red]x[/bold red]' as \"[link=x]y[/link]\""
    out = assizes("sql", "s.duckdb", query, cwd=folder).out
    assert "[bold red]x[/bold red]" in out
    assert "[link=x]y[/link]" in out


@pytest.mark.parametrize("kind", ["quiet", "--verbose"])
def test_a_warning_and_a_defect_are_printable(kind: str):
    program = (
        "import logging, sys\n"
        "from assizes.deployments import cli\n"
        "from assizes.deployments.terminal import StderrLines, keep_log_printable\n"
        "keep_log_printable()\n"
        "logging.getLogger('assizes.tasks').addHandler(StderrLines(logging.WARNING))\n"
        "sys.excepthook = cli._internal_error\n"
        "text = sys.stdin.read()\n"
        "logging.getLogger('assizes.tasks.x').warning('about %s', text)\n"
        "logging.getLogger('other').error('of others', exc_info=ValueError(text))\n"
        "raise ValueError(text)\n"
    )
    text = "".join(ESCAPES).encode()
    done = subprocess.run(
        [sys.executable, "-c", program, kind],
        input=text,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    stderr = done.stderr.decode()
    assert (done.returncode, "warning: about" in stderr) == (70, True)
    assert "internal error: ValueError" in stderr
    assert unprintable(stderr.replace("\t", "")) == []


def test_json_reads_as_what_was_written():
    for text in ESCAPES:
        document = {text: [text, 1.5, None]}
        shown = json_text(document)
        assert unprintable(shown) == []
        assert json.loads(shown) == document


def test_text_that_is_printable_stays_as_it_is():
    for text in ("Grüße, 東京, 😀, עברית", "a  b", ""):
        assert printable(text) == text
