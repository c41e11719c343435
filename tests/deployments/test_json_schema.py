"""Every command with `--json` has a schema, and prints what the schema says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from jsonschema import Draft202012Validator

from assizes.deployments.cli import app
from assizes.deployments.documents.table import DOCUMENTS, document_schema
from assizes.deployments.options import visible_commands
from tests.command import ROOT, assizes

pytestmark = pytest.mark.xdist_group("json-schema")

STORE = ("--store", "store.duckdb")
CONFIG = """
name = "demo"
[transcripts]
uri = "night-{date}.jsonl"
[store]
uri = "duckdb:///store.duckdb"
[cache]
uri = "cache"
[report]
uri = "reports"
[comparison]
baseline = "latest"
"""

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "demo": ("demo", "--folder", "other"),
    "run": ("run", "--date", "2026-11-03"),
    "plan": ("plan", "--date", "2026-11-03"),
    "nightly": ("nightly", "--date", "2026-11-03"),
    "backfill": ("backfill", "--from", "2026-11-02", "--to", "2026-11-03"),
    "resume": ("resume", "latest", *STORE),
    "doctor": ("doctor", "--set", "transcripts.uri=night-2026-11-03.jsonl"),
    "compare": ("compare", "demo~1", "demo", *STORE),
    "rank": ("rank", "demo~1", "demo", "--model", "offline/lexical", *STORE),
    "sql": ("sql", "store.duckdb", "select * from cases limit 3"),
    "results": ("results", "yesno", *STORE),
    "import": ("import", "native", "night-2026-11-03.jsonl", "converted.jsonl"),
    "runs": ("runs", *STORE),
    "show": ("show", "demo", *STORE),
    "rejects": ("rejects", "demo~1", *STORE),
    "case": ("case", "demo", "14", *STORE),
    "explain": ("explain", "demo", "14", "tool_routing", *STORE),
    "report": ("report", "demo", *STORE, "-o", "reports-again"),
    "export": ("export", "demo", "--wide", "wide.parquet", *STORE),
    "metrics": ("metrics",),
    "judges": ("judges",),
    "trends": ("trends", "demo", *STORE),
    "causes show": ("causes", "show", "demo~1", *STORE),
    "labels queue": ("labels", "queue", "demo", "--size", "5", *STORE),
    "labels import": ("labels", "import", "labels.jsonl", "--run", "demo", *STORE),
    "labels status": ("labels", "status", "demo", *STORE),
    "labels list": ("labels", "list", *STORE),
    "labels export": ("labels", "export", "demo", "--to", "labels.csv", *STORE),
    "calibrate": ("calibrate", "store:", "--run", "demo", *STORE),
    "causes rename": ("causes", "rename", "demo~1", "verbose", "too long", *STORE),
    "causes describe": ("causes", "describe", "demo~1", "too long", "It talks.", *STORE),
    "causes mute": ("causes", "mute", "demo~1", "too long", *STORE),
    "causes unmute": ("causes", "unmute", "demo~1", "too long", *STORE),
    "causes assign": ("causes", "assign", "demo~1", "too long", "Ada", *STORE),
    "causes merge": ("causes", "merge", "demo~1", "ungrounded claim", "too long", *STORE),
    "causes split": (
        "causes",
        "split",
        "demo~1",
        "wrong parameter",
        "--case",
        "0",
        "--name",
        "n",
        *STORE,
    ),
    "causes history": ("causes", "history", "demo~1", *STORE),
    "causes codebook": ("causes", "codebook", "demo~1", "--to", "codes.toml", *STORE),
    "rubric test": ("rubric", "test", "groundedness"),
    "promote": ("promote", "demo~1", "--to", "suite", "--case", "14", *STORE),
    "suite status": ("suite", "status", "suite", *STORE),
    "suite retire": ("suite", "retire", "suite", "--case", "14", *STORE),
    "store compact": ("store", "compact", "demo", "--store", "lake"),
    "store clean": ("store", "clean", "--store", "lake"),
    "store forget": ("store", "forget", "14", *STORE),
    "retry-rejected": ("retry-rejected", "demo~1", "--dry-run"),
    "deploy": ("deploy", "--dry-run", "--set", 'nightly.cron="0 3 * * *"'),
    "stop": ("stop", "--lift"),
}
"""A call of each command, in an order in which each finds what it needs."""

ELSEWHERE = {
    "after-deployment": "prints what `run` prints",
    "align": "asks a language model",
    "cascade": "asks language models",
    "causes agreement": "needs failure codes of people",
    "causes name": "asks a language model",
    "judge-tables": "needs recorded judgements; test_judge_tables_command.py checks its document",
    "ci": "needs a repository",
    "labels pull": "needs a server with labels",
    "publish": "needs a server to publish to",
    "store rebuild": "needs a damaged file",
}
"""Commands that this module does not call, and why."""


def with_json() -> set[str]:
    known = visible_commands(typer.main.get_command(app))
    return {
        name
        for name, command in known.items()
        if any("--json" in option.opts for option in command.params)
    }


def test_every_command_with_json_has_a_schema_and_is_called_here_or_said_why_not():
    assert set(DOCUMENTS) == with_json()
    assert set(COMMANDS) | set(ELSEWHERE) == with_json()
    assert not set(COMMANDS) & set(ELSEWHERE)


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
def test_a_schema_is_a_schema_that_something_does_not_fit(command: str):
    schema = document_schema(command)
    Draft202012Validator.check_schema(schema)
    assert not Draft202012Validator(schema).is_valid("a text")
    assert not Draft202012Validator(schema).is_valid([1]), "a list of anything fits"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Path:
    """A store with two nights, a lake with one, labels of people."""
    place = tmp_path_factory.mktemp("json")
    made = assizes("demo", "--nights", "--folder", "made", cwd=place)
    assert made.code == 0, made.err
    for number, day in ((1, "2026-11-01"), (2, "2026-11-02"), (3, "2026-11-03")):
        shutil.copy(place / f"made/night-{number}.jsonl", place / f"night-{day}.jsonl")
    with (place / "night-2026-11-02.jsonl").open("a") as night:
        night.write('{"broken": \n')
    (place / "assizes.toml").write_text(CONFIG)
    for day in ("2026-11-01", "2026-11-02"):
        judged = assizes("run", "--date", day, cwd=place)
        assert judged.code in (0, 1), judged.err
    lake = ("--set", "store.uri=lake", "--set", "cache.uri=cache2")
    assert assizes("run", "--date", "2026-11-02", *lake, cwd=place).code in (0, 1)
    rag = ("--set", 'judge.judges=["safety"]', "--set", "name=yesno")
    assizes("run", "--date", "2026-11-01", *rag, cwd=place)
    rows = [{"case_id": case, "label": 1, "rater": "Ada"} for case in ("14", "7", "2", "1")]
    (place / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def mend(file: Path) -> None:
    """Put a case in the place of the last record, which could not be read."""
    lines = file.read_text().splitlines()
    lines[-1] = json.dumps(json.loads(lines[0]) | {"case_id": "mended"})
    file.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.full
@pytest.mark.long
def test_each_command_prints_what_its_schema_says(folder: Path, prefect_server: str):
    faults: dict[str, Any] = {}
    for command, words in COMMANDS.items():
        if command == "retry-rejected":
            mend(folder / "night-2026-11-02.jsonl")
        answer = assizes(*words, "--json", cwd=folder, env={"PREFECT_API_URL": prefect_server})
        try:
            document = json.loads(answer.out)
        except ValueError:
            faults[command] = f"exit code {answer.code}: {answer.err.strip()[-300:]}"
            continue
        errors = list(Draft202012Validator(document_schema(command)).iter_errors(document))
        if errors:
            faults[command] = [f"{error.json_path}: {error.message[:200]}" for error in errors[:3]]
        if not document:
            faults[command] = "an empty document shows nothing"
    assert faults == {}


@pytest.mark.full
def test_the_command_prints_the_schema_and_names_the_known_commands(tmp_path: Path):
    answer = assizes("json-schema", "causes", "show", cwd=tmp_path)
    assert json.loads(answer.out) == document_schema("causes show")
    unknown = assizes("json-schema", "cause", cwd=tmp_path)
    assert unknown.code == 2
    assert "json-schema: unknown command 'cause'; known: after-deployment, align" in unknown.err


def test_the_reference_lists_every_document():
    page = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
    assert all(f"## assizes {command} --json\n" in page for command in DOCUMENTS)
