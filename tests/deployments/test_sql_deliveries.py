"""`assizes sql` shows table deliveries, which lies beside the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import assizes
from tests.doubles.json_server import json_server
from tests.doubles.langfuse_scores import KEYS, LangfuseScores
from tests.tasks.publishing.sample import RUN_ID, stored

pytestmark = pytest.mark.data

STATES = "SELECT state, count(*) AS n FROM deliveries GROUP BY state ORDER BY state"


def found(folder: Path, target: str, query: str) -> list[dict[str, Any]]:
    ended = assizes("sql", target, query, "--json", cwd=folder)
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


@pytest.mark.parametrize("lake", [False, True])
def test_the_deliveries_of_a_run_and_of_a_store(tmp_path: Path, lake: bool):
    config = stored(tmp_path, lake=lake)
    settings = json.dumps(config.uri)
    (tmp_path / "assizes.toml").write_text(
        f'[transcripts]\nuri = "in.jsonl"\n[store]\nuri = {settings}\n'
    )
    assert found(tmp_path, RUN_ID, STATES) == []
    with json_server(LangfuseScores("lists").answer) as server:
        env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
        sent = assizes("publish", RUN_ID, "--to", "langfuse://x", cwd=tmp_path, env=env)
        assert sent.code == 0, sent.err
    wanted = [{"state": "sending", "n": 16}, {"state": "sent", "n": 16}]
    assert found(tmp_path, RUN_ID, STATES) == wanted
    assert found(tmp_path, config.uri, STATES) == wanted
    joined = (
        "SELECT count(*) AS n FROM deliveries JOIN scores ON deliveries.case_id = scores.case_id "
        "AND deliveries.name = scores.metric WHERE state = 'sent' AND part = ''"
    )
    assert found(tmp_path, RUN_ID, joined) == [{"n": 12}]
