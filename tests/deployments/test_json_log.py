"""`--log-format json`: ids and hashes, never the text of a transcript."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.deployments.terminal import MAX_REPEATS, JsonLines, keep_log_printable
from assizes.judge.formats import native_line
from assizes.tasks.runtime.process import install_log_redaction
from tests.command import assizes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def logger(clock: Clock):
    own = logging.getLogger("assizes.judge.tests_of_json")
    handler = JsonLines(clock)
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False
    yield own
    own.removeHandler(handler)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.row("O6")
def test_what_repeats_is_held_back_and_counted(
    logger: logging.Logger, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    for number in range(50):
        logger.warning("provider %s is away", f"p{number}")
    logger.warning("something else")
    clock.now = 61.0
    logger.warning("provider %s is away", "again")
    records = lines(capsys)
    assert [record["message"] for record in records] == [
        *(f"provider p{number} is away" for number in range(MAX_REPEATS)),
        "something else",
        "provider again is away",
    ]
    assert records[-1]["not_repeated"] == 50 - MAX_REPEATS


@pytest.mark.row("O6")
def test_an_error_is_told_by_its_kind_alone(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
):
    error = ValueError("the user said: my card is 4111")
    logger.error("a judge broke\non a case", exc_info=error)
    (record,) = lines(capsys)
    assert (record["error"], record["level"]) == ("ValueError", "error")
    assert record["message"] == "a judge broke on a case"
    assert "4111" not in json.dumps(record)


@pytest.mark.row("O6")
def test_an_error_among_the_arguments_is_told_by_its_kind(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
):
    logger.warning("%s could not be judged: %s", "2026-11-20", ValueError("my card is 4111"))
    logger.error("nothing to fill in: 100 %")
    assert [record["message"] for record in lines(capsys)] == [
        "2026-11-20 could not be judged: ValueError",
        "nothing to fill in: 100 %",
    ]


@pytest.fixture
def _cleaned():
    """A log that is cleaned as in a command, and by nothing that other tests have put in."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    install_log_redaction()
    keep_log_printable()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.row("O6")
@pytest.mark.usefixtures("_cleaned")
def test_an_error_is_told_by_its_kind_where_a_line_is_cleaned_too(
    logger: logging.Logger, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    for number in range(2 * MAX_REPEATS):
        blank = " \u00a0"[number % 2]
        error = ValueError(f"patient {number} said I{blank}feel sick")
        logger.warning("judge %s broke: %s", f"a{blank}b", error)
    clock.now = 61.0
    logger.warning("judge %s broke: %s", "bearer sk-abcdefgh12345678", ValueError("I feel sick"))
    records = lines(capsys)
    assert [record["message"] for record in records] == [
        *["judge a b broke: ValueError"] * MAX_REPEATS,
        "judge bearer *** broke: ValueError",
    ]
    assert records[-1]["not_repeated"] == MAX_REPEATS


@pytest.mark.row("O6")
def test_no_shard_that_is_committed_goes_unsaid(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
):
    for number in range(3 * MAX_REPEATS):
        logger.info("shard %s is committed", number)
    assert len(lines(capsys)) == 3 * MAX_REPEATS


@pytest.mark.row("O6")
def test_the_line_a_command_ends_with_is_json_as_well(tmp_path: Path):
    answer = assizes("--log-format", "json", "run", cwd=tmp_path)
    (record,) = [json.loads(line) for line in answer.err.splitlines()]
    assert (answer.code, record["level"], record["error"]) == (2, "error", "ConfigurationError")
    assert record["message"].startswith(
        f"no configuration: there is no assizes.toml in {tmp_path};"
    )


@pytest.mark.full
@pytest.mark.row("O6")
def test_a_run_with_a_server_of_its_own_logs_json_alone(tmp_path: Path):
    (tmp_path / "in.jsonl").write_bytes(native_line(sample_cases()[0]))
    (tmp_path / "assizes.toml").write_text('[transcripts]\nuri = "in.jsonl"\n')
    env = {"ASSIZES_HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)}
    answer = assizes("--log-format", "json", "run", "--json", cwd=tmp_path, env=env)
    records = [json.loads(line) for line in answer.err.splitlines()]
    assert "temporary Prefect server" in str(records[0]["message"])


@pytest.mark.full
@pytest.mark.row("O6")
def test_a_run_logs_its_states_with_ids_and_no_text_of_a_transcript(
    prefect_server: str, tmp_path: Path
):
    cases = sample_cases()[:3]
    (tmp_path / "in.jsonl").write_bytes(b"".join(map(native_line, cases)))
    (tmp_path / "assizes.toml").write_text(
        '[transcripts]\nuri = "in.jsonl"\n[thresholds]\nmetrics_pass_threshold = 0\n'
        "cases_pass_threshold = 0\n"
    )
    env = {"PREFECT_API_URL": prefect_server}
    answer = assizes("--log-format", "json", "run", "--json", cwd=tmp_path, env=env)
    assert answer.code == 0, answer.err
    run_id = json.loads(answer.out)["run_id"]
    records = [json.loads(line) for line in answer.err.splitlines()]
    (committed,) = [record for record in records if str(record["message"]).startswith("shard ")]
    assert (committed["run_id"], committed["attempt"]) == (run_id, 1)
    assert committed["shard"] in committed["message"]
    assert {len(str(record["config_hash"])) for record in records} == {16}
    (ended,) = [record for record in records if "is complete" in str(record["message"])]
    assert "assizes.run.finished" in ended["message"]
    texts = {turn.text for case in cases for turn in case.transcript.turns if turn.text}
    assert not any(text in answer.err for text in texts)
