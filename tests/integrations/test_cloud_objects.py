"""Transcripts on gs:// and az://, by the real packages, from servers of the tests.

The packages lie in the environment of the integrations, and are found after those of the lock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.case import Case
from assizes.judge.formats import native_line
from tests.command import KEYS, TIMEOUT_S, Answer
from tests.doubles.azure_blobs import running_blobs
from tests.doubles.cloud_storage import running_storage
from tests.flows.test_kills import KILLED
from tests.integrations.conftest import BIN
from tests.outward import PYTHONPATH

COMMAND = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); "
    "from assizes.deployments.cli import main; main()"
)
PLACE = "place"
"""The name of the bucket or container."""


@dataclass(frozen=True)
class Cloud:
    """A service with one bucket or container."""

    uri: str
    env: dict[str, str]  # by which its package finds it
    put: Callable[[str, bytes], Any]
    reads: list[str]  # names of the objects whose content was asked for


@pytest.fixture(params=["gs", "az"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    if request.param == "gs":
        with running_storage() as (storage, url):
            storage.buckets[PLACE] = {}
            # Without a key, and without asking whether this is a machine of Google's.
            env = {"STORAGE_EMULATOR_HOST": url, "NO_GCE_CHECK": "true"}
            put = lambda name, content: storage.put(PLACE, name, content)  # noqa: E731
            yield Cloud(f"gs://{PLACE}/logs", env, put, storage.reads)
    else:
        with running_blobs() as (blobs, url):
            env = {"AZURE_STORAGE_CONNECTION_STRING": blobs.connection_string(url)}
            put = lambda name, content: blobs.put(PLACE, name, content)  # noqa: E731
            yield Cloud(f"az://{PLACE}/logs", env, put, blobs.reads)
            assert blobs.unsigned == []


def lines(cases: list[Case]) -> bytes:
    return b"".join(native_line(case) for case in cases)


def configure(folder: Path, cloud: Cloud) -> None:
    (folder / "assizes.toml").write_text(
        f'name = "cloud"\n[transcripts]\nuri = "{cloud.uri}"\n'
        "[runner]\nshard_size = 2\n"
        "[thresholds]\nmetrics_pass_threshold = 0\ncases_pass_threshold = 0\n"
    )


def command(
    *arguments: str, folder: Path, cloud: Cloud, server: str, failpoint: str = ""
) -> Answer:
    own = {
        **cloud.env,
        "PYTHONPATH": PYTHONPATH,
        "PREFECT_API_URL": server,
        "ASSIZES_FAILPOINT": failpoint,
        # Else gcsfs asks by gRPC what kind of bucket it is, for a minute.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }
    packages = next(BIN.parent.glob("lib/python3*/site-packages"))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(packages), *arguments],
        cwd=folder,
        env={**{name: value for name, value in os.environ.items() if name not in KEYS}, **own},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_killed_run_over_objects_goes_on_and_judges_each_case_once(
    tmp_path: Path, cloud: Cloud, prefect_server: str
):
    cases = sample_cases()[:6]
    cloud.put("logs/a.jsonl", lines(cases[:4]))
    cloud.put("logs/deeper/b.jsonl", lines(cases[4:]))
    cloud.put("other/c.jsonl", lines(sample_cases()[6:8]))
    configure(tmp_path, cloud)
    doctor = command("doctor", "--json", folder=tmp_path, cloud=cloud, server=prefect_server)
    (check,) = [each for each in json.loads(doctor.out) if each["name"] == "transcripts"]
    assert check["state"] == "ok", check
    assert f"{cloud.uri}: 2 objects" in check["finding"]
    killed = command(
        *("run", "--run-id", "r"),
        folder=tmp_path,
        cloud=cloud,
        server=prefect_server,
        failpoint="shard.committed:2",
    )
    assert killed.code == KILLED, killed.err
    resumed = command("resume", "r", "--json", folder=tmp_path, cloud=cloud, server=prefect_server)
    assert resumed.code == 0, resumed.err
    counts = json.loads(resumed.out)["summary"]["counts"]
    assert (counts["read"], counts["judged"], counts["errored"]) == (6, 6, 0)
    assert set(cloud.reads) == {"logs/a.jsonl", "logs/deeper/b.jsonl"}


def test_an_object_that_changes_while_a_run_is_down_is_not_judged_as_if_it_were_the_old_one(
    tmp_path: Path, cloud: Cloud, prefect_server: str
):
    cases = sample_cases()[:6]
    for number in range(3):
        cloud.put(f"logs/{number}.jsonl", lines(cases[2 * number : 2 * number + 2]))
    configure(tmp_path, cloud)
    killed = command(
        *("run", "--run-id", "r"),
        folder=tmp_path,
        cloud=cloud,
        server=prefect_server,
        failpoint="shard.committed:1",
    )
    assert killed.code == KILLED, killed.err
    cloud.put("logs/2.jsonl", lines(sample_cases()[6:8]))
    resumed = command("resume", "r", "--json", folder=tmp_path, cloud=cloud, server=prefect_server)
    assert "changed" in resumed.out + resumed.err
    ids = {case.case_id for case in sample_cases()[6:8]}
    query = "SELECT case_id FROM cases"
    found = command(
        "sql", "r", query, "--json", folder=tmp_path, cloud=cloud, server=prefect_server
    )
    assert not any(case_id in found.out for case_id in ids)


def test_a_bucket_that_is_not_there_is_one_line(tmp_path: Path, cloud: Cloud, prefect_server: str):
    configure(tmp_path, cloud)
    ended = command("run", folder=tmp_path, cloud=cloud, server=prefect_server)
    assert ended.code in (2, 4), ended.err
    assert "Traceback" not in ended.err
    assert cloud.uri in ended.err
