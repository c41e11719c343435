"""Twenty kills between any two steps, and then every score is there exactly once."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from assizes.tasks.runtime.failpoints import PUBLISHING
from tests.command import assizes
from tests.doubles.json_server import json_server
from tests.doubles.langfuse_scores import KEYS, Generation, LangfuseScores
from tests.doubles.otlp_logs import OtlpLogs
from tests.tasks.publishing.sample import RUN_ID, stored, traced_run

pytestmark = [pytest.mark.full, pytest.mark.long]

KILLS = 20
CASES = tuple(f"{n:032x}" for n in range(1, 401))
ENTRIES = 4 * len(CASES)


def publish_with_kills(
    folder: Path, to: str, env: dict[str, str], kills: int = KILLS, cases: tuple[str, ...] = CASES
) -> Counter[str]:
    """Publish until nothing is left, and kill the command on the way; returns where it was killed."""
    stored(folder, traced_run(cases))
    chance = random.Random(23)  # the same kills in every run of the test
    killed: Counter[str] = Counter()
    words = ("publish", RUN_ID, "--to", to, "--json")
    while killed.total() < kills:
        place = chance.choice(PUBLISHING)
        nth = chance.randint(1, 20) if place == "publish.answered" else 1
        answer = assizes(*words, cwd=folder, env={**env, "ASSIZES_FAILPOINT": f"{place}:{nth}"})
        assert answer.code == -9, answer.err  # else too few scores are left to be killed so often
        killed[place] += 1
    last = assizes(*words, cwd=folder, env=env)
    assert last.code == 0, last.err
    report = json.loads(last.out)
    assert (report["refused"], report["unanswered"]) == (0, 0)
    again = json.loads(assizes(*words, cwd=folder, env=env).out)
    assert (again["unchanged"], again["sent"]) == (4 * len(cases), {})
    return killed


@pytest.mark.data
@pytest.mark.parametrize("generation", ["lists", "events"])
def test_langfuse_holds_every_score_once(tmp_path: Path, generation: Generation):
    double = LangfuseScores(generation)
    with json_server(double.answer) as server:
        env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
        killed = publish_with_kills(tmp_path, "langfuse://agents", env)
    assert killed.total() == KILLS
    assert len(double.scores) == ENTRIES
    shown = {(score["traceId"], score["name"]) for score in double.scores.values()}
    assert len(shown) == ENTRIES


def test_otlp_gets_every_event_at_least_once_and_repeats_bear_the_same_id(tmp_path: Path):
    double = OtlpLogs()
    with json_server(double.answer) as server:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=otlp%20secret",
        }
        killed = publish_with_kills(tmp_path, "otlp", env)
    assert killed.total() == KILLS
    ids = Counter(event["values"]["assizes.delivery_id"] for event in double.events)
    assert len(ids) == ENTRIES
    # Only a kill between an answer and its note leads to a repeat, of one batch of 100 at most.
    lost = killed["publish.answered"] + killed["publish.sent"]
    assert ids.total() - ENTRIES <= 100 * lost
