"""The installed wheel in projects that have folders `flows/`, `tasks/` and `judge/` of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from prefect.client.orchestration import get_client

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import KEYS
from tests.conftest import ROOT
from tests.doubles.workers import kill_host
from tests.outward import FOLDER as OUTWARD_GUARD

pytestmark = pytest.mark.full

LAYERS = ("judge", "tasks", "flows", "deployments")

PACKAGES_OF_A_USER = {
    "flows/__init__.py": "OWNER = 'the user'\n",
    "flows/nightly.py": "OWNER = 'the user'\n",
    "tasks/__init__.py": "OWNER = 'the user'\n",
    "judge/__init__.py": "OWNER = 'the user'\n",
}
MODULES_OF_AN_INVOKE_USER = {
    "tasks.py": "OWNER = 'the user'\n",
    "judge/__init__.py": "OWNER = 'the user'\n",
    "flows/nightly.py": "OWNER = 'the user'\n",
}

CONFIG = """
name = "{name}"
[transcripts]
uri = "logs/{{date}}/"
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
[nightly]
cron = ""
"""

UNTOUCHED = """
import json, logging, os
import polars, prefect.serializers  # polars sets a variable for its allocator
before = dict(os.environ), logging.getLogRecordFactory(), prefect.serializers.PickleSerializer.loads
import assizes.flows.evaluate, assizes.flows.nightly, assizes.flows.backfill, assizes.deployments.cli
after = dict(os.environ), logging.getLogRecordFactory(), prefect.serializers.PickleSerializer.loads
print(json.dumps([one == other for one, other in zip(before, after)]))
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` builds: a source distribution of this tree, and a wheel from that."""
    out = tmp_path_factory.mktemp("archives")
    here = (f"BIN={Path(sys.executable).parent}", f"DIST={out}")
    nothing_to_install = ("--old-file", ".venv/.installed")
    subprocess.run(
        ["make", "wheel", *nothing_to_install, *here], cwd=ROOT, check=True, capture_output=True
    )
    return out


@pytest.fixture(scope="module")
def python(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel and its dependencies."""
    place = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    interpreter = place / "bin" / "python"
    (wheel,) = archives.glob("*.whl")
    install = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--quiet"]
    subprocess.run([*install, "--python", str(interpreter), str(wheel)], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # Only the folder: the link that makes this tree importable stands in a .pth file there, and
    # such files are read of the interpreter's own folder only.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def environment(**more: str) -> dict[str, str]:
    """The environment of a user's shell, with the guard that refuses calls to the outside."""
    inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
    return {**inherited, "PYTHONPATH": str(OUTWARD_GUARD), **more}


def scratch(folder: Path, files: dict[str, str], name: str) -> Path:
    """Write a user's project with yesterday's transcripts and a configuration."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    night = datetime.now(UTC).date() - timedelta(days=1)
    logs = folder / "logs" / night.isoformat()
    logs.mkdir(parents=True)
    (logs / "part-0.jsonl").write_bytes(b"".join(map(native_line, sample_cases()[:4])))
    (folder / "assizes.toml").write_text(CONFIG.format(name=name))
    return folder


def run(python: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the installed package, or of Python, in a folder of the user."""
    return subprocess.run(
        [str(python), *words],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_wheel_built_from_the_source_distribution_holds_every_module(archives: Path):
    (wheel,) = archives.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("assizes/")}
    tracked = subprocess.run(
        ["git", "ls-files", *LAYERS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    there = [name for name in tracked if (ROOT / name).is_file()]
    wanted = {f"assizes/{name}" for name in there} | {
        f"assizes/{name}" for name in ("__init__.py", "py.typed", "pytest.py")
    }
    assert len(wanted) > 250
    assert held == wanted


def test_an_editable_install_holds_no_copy_of_a_module(tmp_path: Path):
    builder = WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["editable"])
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if ".dist-info/" not in name] == ["_assizes.pth"]


def test_both_archives_have_the_version_that_the_command_says(
    archives: Path, python: Path, tmp_path: Path
):
    command = str(python.with_name("assizes"))
    done = subprocess.run(
        [command, "--version"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    _, version = done.stdout.split()
    names = {f"assizes-{version}.tar.gz", f"assizes-{version}-py3-none-any.whl"}
    assert names == {path.name for path in archives.iterdir() if path.name.startswith("assizes")}


def test_what_the_readme_and_the_demo_name_next_works_as_typed(
    python: Path, tmp_path: Path, prefect_server: str
):
    """In a folder with nothing in it but an environment, as `make demo` leaves the clone."""
    (tmp_path / ".venv").symlink_to(python.parents[1])
    more = {"PREFECT_API_URL": prefect_server}

    def typed(line: str) -> str:
        done = subprocess.run(
            line.split(),
            cwd=tmp_path,
            env=environment(**more),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    shown = typed(".venv/bin/assizes demo").splitlines()
    named = [line.partition(": ")[2] for line in shown if ": .venv/bin/assizes " in line]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    after_demo = readme.partition("\n    make demo\n")[2].splitlines()
    assert named == [line.strip() for line in after_demo if line.startswith("    .venv/bin/")]
    show, serve = named
    assert "tool_routing" in typed(show)
    process = subprocess.Popen(
        [*serve.split(), "--port", str(port := free_port())], cwd=tmp_path, env=environment()
    )
    try:
        assert b"demo" in page(f"http://127.0.0.1:{port}/")
    finally:
        process.terminate()
        process.wait(timeout=30)


def page(url: str) -> bytes:
    """A page of a server that may still be starting."""
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
        time.sleep(0.2)
    raise AssertionError(url)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("files", [PACKAGES_OF_A_USER, MODULES_OF_AN_INVOKE_USER])
@pytest.mark.parametrize("path", ["", "."])
def test_folders_of_the_user_and_the_package_do_not_meet(
    python: Path, tmp_path: Path, prefect_server: str, files: dict[str, str], path: str
):
    folder = scratch(tmp_path, files, "beside")
    own = "; ".join(f"import {name}" for name in ("tasks", "judge", "flows.nightly as nightly"))
    code = f"{own}; print(tasks.OWNER, judge.OWNER, nightly.OWNER)"
    pythonpath = os.pathsep.join(filter(None, (str(OUTWARD_GUARD), path)))
    more = {"PYTHONPATH": pythonpath, "PREFECT_API_URL": prefect_server}
    assert run(python, folder, "-c", code, **more).stdout.split() == ["the", "user"] * 3
    night = str(datetime.now(UTC).date() - timedelta(days=1))
    command = ("-m", "assizes.deployments.cli", "run", "--date", night, "--json")
    done = run(python, folder, *command, **more)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["counts"]["judged"] == 4


async def test_a_worker_in_such_a_folder_runs_what_deploy_registered(
    python: Path, tmp_path: Path, prefect_server: str
):
    folder = scratch(tmp_path, PACKAGES_OF_A_USER, "worked")
    path = os.pathsep.join((str(OUTWARD_GUARD), "."))
    more = {"PREFECT_API_URL": prefect_server, "PYTHONPATH": path}
    more["PREFECT_WORKER_QUERY_SECONDS"] = "1"
    pool = "runner.work_pool=pool-of-a-wheel"
    deploy = ("-m", "assizes.deployments.cli", "deploy", "--set", pool)
    done = await asyncio.to_thread(run, python, folder, *deploy, **more)
    assert done.returncode == 0, done.stderr
    start = ("-m", "prefect", "worker", "start", "--pool", "pool-of-a-wheel", "--type", "process")
    with (tmp_path / "worker.log").open("ab") as log:
        worker = await asyncio.create_subprocess_exec(
            str(python), *start, cwd=folder, env=environment(**more), stdout=log, stderr=log
        )
    try:
        async with get_client() as client:
            nightly = await client.read_deployment_by_name("nightly/assizes-worked")
            begun = await client.create_flow_run_from_deployment(nightly.id)
            async with asyncio.timeout(180):
                while True:
                    state = (await client.read_flow_run(begun.id)).state
                    if state is not None and state.is_final():
                        break
                    await asyncio.sleep(0.5)
    finally:
        kill_host(worker.pid)
        await worker.wait()
    assert state.is_completed(), (state, (tmp_path / "worker.log").read_text()[-2000:])
    shown = await asyncio.to_thread(run, python, folder, "-m", "assizes.deployments.cli", "runs")
    assert "worked" in shown.stdout


def test_importing_the_flows_and_the_command_changes_nothing_in_the_process(
    python: Path, tmp_path: Path
):
    done = run(python, tmp_path, "-c", UNTOUCHED)
    assert done.stdout.split("\n")[0] == "[true, true, true]", done.stderr
