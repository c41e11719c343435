"""The GitHub Action and the GitLab template: their scripts run in a scratch repository, as the services run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import ROOT
from tests.deployments.ci_repository import NOBODY, ScratchRepository
from tests.outward import PYTHONPATH

ACTION = yaml.safe_load((ROOT / "deployments/ci/github/action.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "deployments/ci/gitlab.yml").read_text())[".assizes"]
EXPRESSION = re.compile(r"\$\{\{\s*([a-z.\-_]+)\s*\}\}")
MARKER = "<!-- assizes-ci: clerk -->"


def step(name: str) -> dict[str, Any]:
    (found_step,) = [each for each in ACTION["runs"]["steps"] if each["name"] == name]
    return dict(found_step)


def run_script(
    words: list[str], script: str, folder: Path, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run a script in a file, as both services do; returns its exit code and output."""
    file = folder.parent / "script"
    file.write_text(script)
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*words, str(file)],
        cwd=folder,
        env={**os.environ, **NOBODY, "PYTHONPATH": PYTHONPATH, "PATH": search, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    return done.returncode, done.stdout


def run_step(
    name: str, folder: Path, job: Mapping[str, str], context: Mapping[str, str]
) -> tuple[int, str]:
    """Run a step of the action: `context` gives the inputs that are not left at their defaults."""
    values = {f"inputs.{each}": spec.get("default", "") for each, spec in ACTION["inputs"].items()}
    values |= context
    wanted = step(name)
    environment = {
        variable: EXPRESSION.sub(lambda match: values[match[1]], str(text))
        for variable, text in wanted["env"].items()
    }
    shells = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"], "python": ["python"]}
    return run_script(shells[wanted["shell"]], wanted["run"], folder, {**job, **environment})


def test_no_script_of_the_action_holds_an_expression():
    """What an expression stands for would be code there: a title of a pull request, say."""
    scripts = [each["run"] for each in ACTION["runs"]["steps"] if "run" in each]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.full
def test_the_action_judges_a_pull_request(tmp_path: Path):
    scratch = ScratchRepository.begin(tmp_path / "repository")
    base = scratch.commit_day("v1", rude=[1])
    push = {"GITHUB_ACTIONS": "true", "GITHUB_REF_NAME": "main"}
    code, text = run_step("Judge", scratch.folder, push, {})
    assert code == 0, text
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=[1, 2])
    job = scratch.pull_request(base)
    code, text = run_step("Judge", scratch.folder, job, {})
    assert code == 1, text
    assert "::error file=chats/day.jsonl,line=3,title=assizes%3A c02 regressed" in text
    output = scratch.folder / "assizes-ci"
    assert {path.name for path in output.iterdir()} == {"comment.md", "junit.xml", "findings.sarif"}
    outputs = (tmp_path / "output.txt").read_text()
    named = dict(line.split("=", 1) for line in outputs.splitlines())
    assert set(named) == set(ACTION["outputs"])
    # Each input reaches the command, and none of them a shell.
    inputs = {
        "inputs.set": "thresholds.cases_pass_threshold=10\ncomparison.max_avg_score_drop=50",
        "inputs.transcripts": "chats/$(touch pwned)",
        "inputs.base": "main",
        "inputs.require-baseline": "true",
    }
    code, text = run_step("Judge", scratch.folder, job, inputs)
    assert code == 2
    assert "chats/$(touch pwned)" in text
    assert not (scratch.folder / "pwned").exists()
    assert not (output / "comment.md").exists()  # nothing was judged, nothing is posted
    del inputs["inputs.transcripts"]
    code, text = run_step("Judge", scratch.folder, job, inputs)
    assert (code, "REGRESSION" in text) == (1, True)


class Comments(BaseHTTPRequestHandler):
    """The comments of one pull request, as GitHub's REST API keeps them."""

    def do_GET(self) -> None:
        assert self.path.startswith("/repos/me/mine/issues/7/comments?per_page=100&page=")
        page = int(self.path.rpartition("=")[2])
        self._answer(200, self._server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        assert self.path == "/repos/me/mine/issues/7/comments"
        comment = {"id": 500, "user": {"type": "Bot"}, **self._body()}
        self._server.comments.append(comment)
        self._answer(201, comment)

    def do_PATCH(self) -> None:
        number = int(self.path.removeprefix("/repos/me/mine/issues/comments/"))
        (comment,) = [each for each in self._server.comments if each["id"] == number]
        comment |= self._body()
        self._answer(200, comment)

    @property
    def _server(self) -> Any:
        return self.server

    def _body(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, status: int, document: Any) -> None:
        if self.headers["Authorization"] != "Bearer token":
            status, document = 403, {}
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def comments() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Comments) as server:
        # Somebody else wrote the marker; that comment is not ours to replace.
        people = [{"id": n, "body": MARKER, "user": {"type": "User"}} for n in range(150)]
        server.comments = people  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_comment_is_posted_once_and_then_replaced(tmp_path: Path, comments: Any):
    folder = tmp_path / "repository"
    (folder / "assizes-ci").mkdir(parents=True)
    job = {
        "GITHUB_API_URL": f"http://127.0.0.1:{comments.server_port}",
        "GITHUB_REPOSITORY": "me/mine",
    }
    context = {
        "inputs.token": "token",
        "github.event.pull_request.number": "7",
    }
    code, text = run_step("Comment", folder, job, context)  # nothing was judged
    assert (code, text, len(comments.comments)) == (0, "", 150)
    for verdict in ("PASSED", "REGRESSION"):
        (folder / "assizes-ci/comment.md").write_text(f"{MARKER}\n\n## {verdict}: clerk\n")
        code, text = run_step("Comment", folder, job, context)
        assert (code, text) == (0, "")
    *people, own = comments.comments
    assert own["body"] == f"{MARKER}\n\n## REGRESSION: clerk\n"
    assert {each["body"] for each in people} == {MARKER}
    code, text = run_step("Comment", folder, job, {**context, "inputs.token": "of a fork"})
    assert code == 0  # the verdict stands
    assert text.startswith(
        "::warning title=assizes::the comment could not be posted (HTTPError 403)"
    )


@pytest.mark.full
def test_the_gitlab_job_judges_a_merge_request(tmp_path: Path):
    scratch = ScratchRepository.begin(tmp_path / "repository")
    base = scratch.commit_day("v1", rude=[1])
    (script,) = GITLAB["script"]
    assert "$ASSIZES_CI_INSTALL" in GITLAB["before_script"][0]
    shell = ["sh", "-e"]
    job = {**GITLAB["variables"], "GITLAB_CI": "true", "CI_COMMIT_BRANCH": "main"}
    code, text = run_script(shell, script, scratch.folder, job)
    assert code == 0, text
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=[1, 2])
    merge = {
        **GITLAB["variables"],
        "GITLAB_CI": "true",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    }
    code, text = run_script(shell, script, scratch.folder, merge)
    assert code == 1, text
    assert "chats/day.jsonl:3: error: c02 regressed" in text
    reports = GITLAB["artifacts"]["reports"]
    entries = json.loads((scratch.folder / reports["codequality"]).read_text())
    assert [entry["severity"] for entry in entries] == ["major", "info"]
    assert (scratch.folder / reports["junit"]).exists()
    assert (scratch.folder / "assizes-ci/comment.md").read_text().startswith(MARKER)
    named = {**merge, "ASSIZES_CI_BASELINE": "nobody", "ASSIZES_CI_TRANSCRIPTS": "chats"}
    code, text = run_script(shell, script, scratch.folder, named)
    assert (code, "no run 'nobody'" in text) == (2, True)
