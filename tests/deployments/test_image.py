"""The Dockerfile: what can be built without a container engine is built, the rest is checked.

Its `RUN` lines are run in a folder in place of the root of the image, but for those that download:
of these it is checked that the lock holds what they install.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.command import KEYS
from tests.conftest import ROOT

pytestmark = pytest.mark.full

LOCK, RUNTIME_LOCK = "requirements.lock", "requirements-runtime.lock"
DOWNLOADS = "--require-hashes"
PLACES = ("/opt/", "/build")  # folders of the image that lines of the builder name


class Instruction(NamedTuple):
    stage: int
    word: str
    rest: str


def instructions() -> list[Instruction]:
    stage, made = -1, []
    for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            stage += word == "FROM"
            made.append(Instruction(stage, word, rest))
    return made


def rests(word: str, stage: int | None = None) -> list[str]:
    return [
        each.rest for each in instructions() if each.word == word and stage in (None, each.stage)
    ]


def sent_to_the_builder() -> list[str]:
    """What .dockerignore lets through."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "everything is left out that is not named"
    return [rule[1:] for rule in rules if rule.startswith("!")]


def locked(text: str) -> dict[str, set[str]]:
    """The hashes of each pin of a lock."""
    blocks = re.split(r"\n(?=[a-zA-Z])", text.strip())
    return {block.split()[0]: set(re.findall(r"sha256:\w+", block)) for block in blocks}


def pinned_names(pins: dict[str, set[str]]) -> set[str]:
    return {canonicalize_name(pin.partition("==")[0]) for pin in pins}


def test_the_lock_of_the_image_is_a_part_of_the_lock_of_development():
    everything = locked((ROOT / LOCK).read_text("utf-8"))
    runtime = locked((ROOT / RUNTIME_LOCK).read_text("utf-8"))
    assert {pin: everything.get(pin) for pin in runtime} == runtime
    assert all(runtime.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    names = {
        canonicalize_name(Requirement(text).name) for text in project["project"]["dependencies"]
    }
    assert names <= pinned_names(runtime)
    assert {"mypy", "pytest", "playwright"}.isdisjoint(pinned_names(runtime))


def test_the_image_runs_as_a_user_who_is_not_root():
    last = max(each.stage for each in instructions())
    words = [each.word for each in instructions() if each.stage == last]
    (user,) = rests("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user), "by number, as Kubernetes checks it"
    assert f"--uid {user.partition(':')[0]} " in rests("RUN", last)[0]
    assert words.index("USER") > max(at for at, word in enumerate(words) if word in ("RUN", "COPY"))
    assert [json.loads(rests(word)[0]) for word in ("ENTRYPOINT", "CMD")] == [
        ["assizes"],
        ["--help"],
    ]


def test_the_image_is_built_from_what_is_named():
    bases = rests("FROM")
    assert {base.partition(" ")[0] for base in bases} == {"python:${PYTHON}"}
    (version,) = rests("ARG")
    assert re.fullmatch(r"PYTHON=3\.\d+-slim-\w+", version)
    assert not rests("ADD"), "which would unpack archives and fetch from the network"
    for line in rests("RUN"):
        assert subprocess.run(["sh", "-n", "-c", line], check=False).returncode == 0
        if "pip install" in line:
            assert "--no-deps" in line
            assert ("--no-index" in line) != (DOWNLOADS in line), "from the lock, or from here"
    secret = re.compile("(key|token|secret|password)", re.IGNORECASE)
    assert not [rest for rest in rests("ENV") + rests("ARG") if secret.search(rest)]


def test_nothing_goes_to_the_builder_that_is_not_part_of_a_wheel():
    sent = sent_to_the_builder()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    files = {name.partition("/")[0] for name in targets["sdist"]["only-include"]}
    folders = set(targets["sdist"]["force-include"])
    assert set(sent) == files | folders | {LOCK, RUNTIME_LOCK}
    assert all((ROOT / name).exists() for name in sent)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in place of the image's root after the first stage."""
    root = tmp_path_factory.mktemp("image")
    work = root / "build"
    work.mkdir()
    for each in (each for each in instructions() if each.stage == 0):
        if each.word == "COPY":
            *sources, _ = shlex.split(each.rest)
            _copy(sent_to_the_builder() if sources == ["."] else sources, work)
        elif each.word == "RUN" and DOWNLOADS not in each.rest:
            _run(each.rest, root, work)
            _lend_dependencies(root / "opt" / "builder")
    # Last: pip would take the assizes of this environment for one that is installed there.
    _lend_dependencies(root / "opt" / "assizes")
    return root


def _lend_dependencies(environment: Path) -> None:
    """Have an environment import what is not downloaded here."""
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")


def _copy(names: list[str], into: Path) -> None:
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, into / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, into / name)


def _run(line: str, root: Path, folder: Path) -> None:
    for place in PLACES:
        line = re.sub(rf"(?<![\w.]){place}", f"{root}{place}", line)
    first = str(Path(sys.executable).parent)
    path = f"{first}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [
            "sh",
            "-e",
            "-c",
            line.replace("-m venv", "-m venv --without-pip").replace(
                f"{root}/opt/assizes/bin/python -m pip",
                f"{first}/python -m pip --python {root}/opt/assizes",
            ),
        ],
        cwd=folder,
        env={**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stderr)


def test_the_builder_takes_from_the_lock_what_builds_a_wheel(built: Path):
    pins = locked((built / "build" / "builder.lock").read_text("utf-8"))
    everything = locked((ROOT / LOCK).read_text("utf-8"))
    assert {pin: everything[pin] for pin in pins} == pins
    needed, pending = set(), ["hatchling"]
    while pending:
        needed.add(name := pending.pop())
        wanted = [Requirement(text) for text in requires(name) or ()]
        met = [
            each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
        pending += [canonicalize_name(each.name) for each in met if each.name not in needed]
    assert pinned_names(pins) == needed


def test_the_environment_of_the_image_answers_as_the_command_does(built: Path, tmp_path: Path):
    (wheel,) = (built / "build" / "dist").glob("*.whl")
    environment = {name: text for name, text in os.environ.items() if name not in KEYS}
    done = subprocess.run(
        [built / "opt" / "assizes" / "bin" / "assizes", "--version"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"assizes {wheel.name.split('-')[1]}\n"
