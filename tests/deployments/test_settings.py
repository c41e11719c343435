from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest

from assizes.deployments.setting_faults import settings
from assizes.deployments.settings import (
    configured_api_url,
    read_config,
    read_optional_config,
    validate_config,
)
from assizes.judge.config.judging import MetricSelection
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError

MINIMAL = '[transcripts]\nuri = "t"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "assizes.toml"
    path.write_text(MINIMAL)
    return path


def test_a_minimal_file_gets_the_documents_defaults(file: Path):
    config = read_config(file)
    assert config.judge.pass_threshold == 75.0
    assert config.judge.model_id == "offline/lexical"
    assert config.thresholds.metrics_pass_threshold == 80.0
    assert config.thresholds.cases_pass_threshold == 100.0
    assert config.comparison.max_pass_rate_drop == 0.0
    assert config.comparison.max_avg_score_drop == 5.0
    assert config.comparison.max_latency_increase_pct == 0.2


def test_a_set_pair_wins_over_the_environment_and_the_environment_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    file.write_text(MINIMAL + '[judge]\nmodel = "in/file"\npass_threshold = 10\n')
    monkeypatch.setenv("ASSIZES_JUDGE__MODEL", "in/environment")
    monkeypatch.setenv("ASSIZES_JUDGE__PASS_THRESHOLD", "20")
    monkeypatch.setenv("ASSIZES_JUDGE__METRICS", '["tool_routing"]')
    config = read_config(file, ["judge.pass_threshold=30"])
    assert config.judge.model == "in/environment"
    assert config.judge.pass_threshold == 30.0
    assert config.judge.metrics == (MetricSelection(metric="tool_routing"),)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ASSIZES_JUDGE__COLOUR", "red"), ("ASSIZES_JUDGE__PASS_THRESHOLD", "high")],
)
def test_a_variable_that_is_wrong_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"environment: {name}: "):
        read_config(file)


@pytest.mark.row("001-27")
def test_the_model_of_a_run_wins_over_the_configured_one_and_that_over_the_default(file: Path):
    assert read_config(file).judge.model_id == "offline/lexical"
    file.write_text(MINIMAL + '[judge]\nmodel = "m"\nprovider = "openai"\n')
    assert read_config(file).judge.model_id == "openai/m"
    cheaper = read_config(file, ["judge.model=small", "judge.provider=mistral"]).judge
    assert cheaper.model_id == "mistral/small"


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ('transcripts.writes=["book", "cancel"]', ("book", "cancel")),
        ("transcripts.writes=[]", ()),
    ],
)
def test_a_set_value_is_toml_where_it_can_be(file: Path, pair: str, value: tuple[str, ...]):
    assert read_config(file, [pair]).transcripts.writes == value


@pytest.mark.row("001-62", "001-57")
def test_percentages_may_be_written_as_such(file: Path):
    config = read_config(
        file, ["comparison.max_latency_increase_pct=20%", "comparison.max_pass_rate_drop=2%"]
    )
    assert config.comparison.max_latency_increase_pct == 0.2
    assert config.comparison.max_pass_rate_drop == 0.02


@pytest.mark.row("005-07")
@pytest.mark.parametrize(("value", "limit"), [("0.2", 0.2), ('"20%"', 0.2), ('"150%"', 1.5)])
def test_a_limit_of_latency_is_a_fraction_or_percent(file: Path, value: str, limit: float):
    file.write_text(f"{MINIMAL}[comparison]\nmax_latency_increase_pct = {value}\n")
    config = read_config(file)
    assert config.comparison.max_latency_increase_pct == limit
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config  # as it is stored


@pytest.mark.row("005-07")
def test_a_limit_of_latency_that_could_be_either_is_refused_with_the_reason(file: Path):
    file.write_text(f"{MINIMAL}[comparison]\nmax_latency_increase_pct = 20\n")
    with pytest.raises(ConfigurationError) as caught:
        read_config(file)
    assert str(caught.value) == (
        f"{file}: [comparison] max_latency_increase_pct: 20 could be 20 % or 2000 %: write it as "
        'text, with a percent sign, as in "20%" (given 20)'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[judge]\npass_threshold = 101\n", "[judge] pass_threshold"),
        ("[judge]\npas_threshold = 1\n", "[judge] pas_threshold: no such setting"),
        ("[limits]\nmax_in_flight = 0\n", "[limits] max_in_flight"),
        ('name = "Bad Name"\n' + MINIMAL, 'name: must be small letters, digits, "-" and "_"'),
        ("[store]\nuri = 5\n", "[store] uri"),
        ('[store.storage_options]\nsecret = "x"\n', "secrets belong in the environment"),
        ("[judge\n", "cannot be read as TOML"),
    ],
)
def test_a_fault_names_file_table_and_field(file: Path, text: str, reason: str):
    file.write_text(text if MINIMAL in text else MINIMAL + text)
    with pytest.raises(ConfigurationError) as caught:
        read_config(file)
    assert reason in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value).replace("TOML", "")


def test_without_transcripts_the_missing_setting_is_named(tmp_path: Path):
    file = tmp_path / "a.toml"
    file.write_text("")
    with pytest.raises(ConfigurationError, match="transcripts: required"):
        read_config(file)


@pytest.mark.parametrize("pair", ["judge.model", "=x", "name.x.y=1"])
def test_a_set_pair_that_is_none_is_refused(file: Path, pair: str):
    with pytest.raises(ConfigurationError):
        read_config(file, ["name=nightly", pair])


@pytest.mark.row("001-43", "001-44", "000-35", "000-36")
def test_the_snapshot_holds_thresholds_and_judge(file: Path):
    snapshot = read_config(file).model_dump(mode="json")
    assert snapshot["thresholds"]["metrics_pass_threshold"] == 80.0
    assert snapshot["thresholds"]["cases_pass_threshold"] == 100.0
    assert snapshot["judge"]["metrics"] is None
    assert snapshot["judge"]["pass_threshold"] == 75.0


def test_where_rows_go_and_how_fast_does_not_change_what_a_run_is(file: Path):
    config = read_config(file)
    other = read_config(
        file, ["store.uri=rows", "cache.uri=c", "limits.max_in_flight=7", "runner.shard_size=3"]
    )
    assert config.config_hash() == other.config_hash()
    assert config.config_hash() != read_config(file, ["judge.pass_threshold=50"]).config_hash()


def test_the_api_of_the_active_profile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(tmp_path / "profiles.toml"))
    assert configured_api_url() is None
    (tmp_path / "profiles.toml").write_text(
        'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://127.0.0.1:4200/api"\n'
    )
    assert configured_api_url() == "http://127.0.0.1:4200/api"


@pytest.mark.parametrize(
    ("pair", "field", "value"),
    [
        ("transcripts.agent_version=1.0", "transcripts.agent_version", "1.0"),
        ("transcripts.agent_version=2026-11-21", "transcripts.agent_version", "2026-11-21"),
        ("comparison.baseline=2026-11-21", "comparison.baseline", "2026-11-21"),
        ("name=7", "name", "7"),
        ("judge.model=true", "judge.model", "true"),
        ("transcripts.where.build=12", "transcripts.where", {"build": "12"}),
    ],
)
def test_a_set_value_is_text_where_a_text_is_wanted(file: Path, pair: str, field: str, value):
    value_read: object = read_config(file, [pair])
    for name in field.split("."):
        value_read = getattr(value_read, name)
    assert value_read == value


@pytest.mark.parametrize("baseline", ["2026-11-21", "true", "1.0", '"quoted"', "[a]"])
def test_an_option_is_taken_as_it_is(file: Path, baseline: str):
    config = read_config(file, ["comparison.baseline=x"], {"comparison": {"baseline": baseline}})
    assert config.comparison.baseline == baseline


def test_an_option_that_was_not_given_leaves_the_file_alone(file: Path):
    file.write_text(MINIMAL + "limit = 3\n")
    assert read_config(file, [], {"transcripts": {"limit": None}}).transcripts.limit == 3


def test_the_reading_commands_take_the_environment_without_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSIZES_STORE__URI", "rows")
    monkeypatch.setenv("ASSIZES_REPORT__URI", "out")
    monkeypatch.setenv("ASSIZES_COMPARISON__MAX_AVG_SCORE_DROP", "50")
    config = read_optional_config(None)
    assert config.store.uri == "rows"
    assert config.report.uri == "out"
    assert config.comparison.max_avg_score_drop == 50.0
    with pytest.raises(ConfigurationError, match="transcripts"):
        read_config(None)


STRANGE = (
    *("", " x ", "x\ny", "\x00", "0" * 300, -1, 10**30, math.inf, math.nan, True, None),
    *([], [1], [[]], [{}], ["a", "a"], {}, {"a": 1}, {"a": {"b": [1]}}, date(2026, 11, 21)),
)


@pytest.mark.parametrize("table", sorted({table for table, _ in settings()}))
def test_a_strange_value_of_any_setting_is_taken_or_refused_in_one_line_of_plain_words(table: str):
    texts = []
    fields = [field for each, field in settings() if each == table]
    for strange in [*STRANGE, *({field: value} for field in fields for value in STRANGE)]:
        try:
            validate_config({"transcripts": {"uri": "t.jsonl"}} | {table: strange}, "file")
        except ConfigurationError as error:
            texts.append(str(error))
    assert texts
    words = ("\n", "Input should", "Extra inputs", "Value error", "pydantic")
    assert [text for text in texts if any(word in text for word in words)] == []
