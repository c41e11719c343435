"""Six secrets are planted and a run is made: none is in any byte that was written."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prefect.exceptions import ParameterTypeError
from prefect.settings import get_current_settings

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import Access, allowed_hosts
from assizes.flows.compare import compare_runs
from assizes.flows.evaluate import evaluate
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.formats import native_line
from assizes.judge.score import Score
from assizes.tasks.store import open_store
from tests.builders import agent, case, user
from tests.command import assizes
from tests.doubles.fixtures import OpenAIServer
from tests.scan import bytes_below, forms, hits, opened

pytestmark = pytest.mark.usefixtures("prefect_server")

SAID = "the blue suitcase of aunt Rosalind"
"""A text of the transcript that must be in no log line above DEBUG."""

CONSOLE = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
ENV = "TESTS_DATABASE_DSN"


def own() -> str:
    """A secret that no rule recognises by its form."""
    return secrets.token_hex(12)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The planted secrets by name; three are in the environment, where operators put secrets."""
    found = {
        "key": own(),
        "dsn": own(),
        "header": own(),
        "url": own(),
        "parameter": own(),
        "echo": f"sk-proj-{own()}",
    }
    monkeypatch.setenv("OPENAI_API_KEY", found["key"])
    monkeypatch.setenv(ENV, f"postgresql://svc:{found['dsn']}@db.internal/app")
    monkeypatch.setenv("TESTS_HEADER", f"Authorization: Bearer {found['header']}")
    monkeypatch.setenv("TESTS_URL", f"https://ada:{found['url']}@files.internal/a")
    return found


def leaky(case: Case) -> list[Score]:
    """A judge that raises an error with all the secrets in its message."""
    raise RuntimeError(
        f"{os.environ['OPENAI_API_KEY']} {os.environ[ENV].split(':')[2].split('@')[0]} "
        f"{os.environ['TESTS_HEADER']} {os.environ['TESTS_URL']}"
    )


def telling(case: Case) -> list[Score]:
    """A judge that puts the secrets into its reason."""
    return [Score.scored("telling", 1.0, reason=f"with {os.environ['OPENAI_API_KEY']}", details={})]


def breaking(case: Case) -> Case:
    """A redaction function of the user that raises an error."""
    raise OSError(f"no way to {os.environ[ENV]} by {os.environ['TESTS_HEADER']}")


FILE = """
[transcripts]
uri = "in"
[judge]
judges = ["conversation", "tests.flows.test_secrets:leaky", "tests.flows.test_secrets:telling"]
api_base = "{base}"
model = "openai/{model}"
[store]
uri = "{store}"
[cache]
uri = "replies"
[report]
uri = "reports"
[limits]
ledger = "ledger.db"
[thresholds]
min_coverage = 0
metrics_pass_threshold = 0
cases_pass_threshold = 0
"""


def furnish(folder: Path, base: str, model: str, store: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    told = case(user(f"Where is {SAID}?"), agent(f"I have found {SAID}."))
    (folder / "in" / "t.jsonl").write_bytes(native_line(told))
    (folder / "assizes.toml").write_text(FILE.format(base=base, model=model, store=store))


def prefects_own() -> dict[str, bytes]:
    """The database of the Prefect server with its write-ahead log, and stored results."""
    home = get_current_settings().home
    return {f"prefect/{name}": data for name, data in bytes_below(home).items()}


async def shown_by_the_api(folder: Path, store: str) -> dict[str, bytes]:
    """Every page and every API response about the runs of a store."""
    uri = f"duckdb:///{folder}/rows.duckdb" if store.startswith("duckdb") else f"{folder}/{store}"
    config = RunConfig.model_validate({"transcripts": {"uri": ""}, "store": {"uri": uri}})
    with open_store(config.store) as opened_store:
        runs = list(opened_store.runs()["run_id"])
    app = create_app(config, Access(allowed_hosts("127.0.0.1", ())))
    paths = ["/", "/runs", "/health", "/config/available-metrics", "/openapi.json"]
    for run in runs:
        paths += [f"/runs/{run}", f"/runs/{run}/cases", f"/runs/{run}/cases/c1"]
    asked = [(path, kind) for path in paths for kind in ("application/json", "text/html")]
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answers = [(p, await client.get(p, headers={"accept": kind})) for p, kind in asked]
    assert {answer.status_code for _, answer in answers} == {200}
    return {f"{n} {path}": answer.content for n, (path, answer) in enumerate(answers)}


@pytest.mark.full
@pytest.mark.row("S4")
@pytest.mark.row("S5")
@pytest.mark.parametrize("store", ["duckdb:///rows.duckdb", "lake"])
async def test_a_run_whose_parts_tell_all_they_know_writes_none_of_it(
    tmp_path: Path, judge_server: OpenAIServer, planted, monkeypatch, store: str, prefect_server
):
    monkeypatch.setenv("OPENAI_API_KEY", planted["key"])  # after that of the fixture
    env = {"OPENAI_API_KEY": planted["key"], "PREFECT_API_URL": prefect_server}
    env |= {"PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true", CONSOLE: "INFO"}
    furnish(tmp_path, judge_server.api_base, "good", store)
    said = assizes("--verbose", "run", "--json", cwd=tmp_path, env=env)
    assert said.code == 0, said.err
    assert "broke on a case" in said.err
    written = {"stdout": said.out.encode(), "stderr": said.err.encode()}
    assert SAID not in said.err
    written |= bytes_below(tmp_path, without=("in",)) | await shown_by_the_api(tmp_path, store)
    written |= prefects_own()
    assert b"RuntimeError: *** *** Authorization: Bearer ***" in b"".join(written.values())
    assert hits(planted, written) == []


@pytest.mark.full
@pytest.mark.row("S4")
def test_a_provider_that_repeats_the_key_is_not_quoted_even_at_debug(
    tmp_path: Path, judge_server: OpenAIServer, planted, prefect_server
):
    levels = ("PREFECT_LOGGING_LEVEL", "PREFECT_LOGGING_ROOT_LEVEL", "LITELLM_LOG", CONSOLE)
    env = {**dict.fromkeys(levels, "DEBUG"), "PREFECT_API_URL": prefect_server}
    furnish(tmp_path, judge_server.api_base, "status-401", "lake")
    for name in ("key", "echo"):
        given = {**env, "OPENAI_API_KEY": planted[name]}
        said = assizes("--verbose", "run", "--json", cwd=tmp_path, env=given)
        assert said.code == 4, said.err
        assert said.err.count("| DEBUG") > 10
        assert "LITELLM_LOG=DEBUG" in said.err
        written = {"stdout": said.out.encode(), "stderr": said.err.encode()}
        written |= bytes_below(tmp_path, without=("in",)) | prefects_own()
        assert b"Incorrect API key provided: ***" in b"".join(written.values())
        assert hits(planted, written) == []


@pytest.mark.row("S4")
async def test_an_error_that_ends_a_flow_tells_no_secret_to_prefect(
    tmp_path: Path, planted, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    furnish(tmp_path, "http://127.0.0.1:9/v1", "good", "lake")
    config = RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{tmp_path}/in", "redact": "tests.flows.test_secrets:breaking"},
            "store": {"uri": f"{tmp_path}/lake"},
            "limits": {"ledger": f"{tmp_path}/ledger.db"},
        }
    )
    state = await evaluate(config, return_state=True)
    assert state.message is not None
    written = {"state": state.message.encode(), "log": caplog.text.encode(), **prefects_own()}
    written["error"] = repr(await state.aresult(raise_on_failure=False)).encode()
    assert b"no way to" in written["state"] + written["log"]
    assert hits(planted, written) == []


@pytest.mark.row("S4")
@pytest.mark.parametrize(
    "place",
    [
        {"store": {"storage_options": {"secret": "{}"}}},
        {"cache": {"storage_options": {"client_kwargs": {"headers": {"authorization": "{}"}}}}},
        {"store": {"uri": "s3://ada:{}@host/rows"}},
        {"anchors": {"uri": "https://ada:{}@host/golden"}},
        {"judge": {"options": {"safety": {"model": "openai/sk-proj-{}"}}}},
    ],
)
async def test_a_secret_among_a_flows_parameters_is_refused_and_not_recorded(
    place, planted, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    given = {"transcripts": {"uri": "nowhere"}, **filled(place, planted["parameter"])}
    with pytest.raises(ParameterTypeError, match="secrets belong in the environment") as refused:
        await evaluate(given)  # type: ignore[arg-type]  # as the Prefect API would
    written = {"error": str(refused.value).encode(), "log": caplog.text.encode(), **prefects_own()}
    assert hits(planted, written) == []


@pytest.mark.row("S4")
async def test_a_store_with_a_secret_is_recorded_without_it(
    planted, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    options = {"secret": planted["parameter"]}
    store = StoreConfig(uri=str(tmp_path / "rows"), storage_options=options)
    with pytest.raises(StoreError, match="no store at"):
        await compare_runs("a", "b", store)
    assert not list(tmp_path.iterdir())
    written = {"log": caplog.text.encode(), **prefects_own()}
    assert hits(planted, written) == []


def filled(value, secret: str):
    if isinstance(value, dict):
        return {name: filled(part, secret) for name, part in value.items()}
    return value.replace("{}", secret)


def packed(secret: str) -> Iterator[bytes]:
    import base64
    import gzip
    import io
    import zlib

    import polars as pl
    from backports import zstd

    data = f'{{"result": "{secret}"}}'.encode()
    yield from (data, gzip.compress(data), zstd.compress(data), zlib.compress(data))
    yield from (base64.b64encode(b"." * n + data) for n in range(3))
    frame = io.BytesIO()
    pl.DataFrame({"a": [secret] * 9}).write_parquet(frame)
    yield frame.getvalue()
    yield gzip.compress(zstd.compress(data))


def test_the_scan_finds_what_is_packed():
    secret = own()
    for number, data in enumerate(packed(secret)):
        assert hits({"it": secret}, {"file": b"".join(opened(data))}) == [("it", "file")], number
    assert len(forms(secret)) == 6
