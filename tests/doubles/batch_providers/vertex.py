"""Vertex AI's batch prediction jobs and Cloud Storage over real HTTP; each request is held to the protocol.

    python -m tests.doubles.batch_providers.vertex --port 0

The server also signs in: `GET /service-account` gives the key of a service account of its own, whose
signed requests for a token it checks. Beside the orders of `desk.py`: `status` (of every job that ends
without results), `buckets` (names of those that exist), `refuse_token` (signing in fails so often).
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
import orjson
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.doubles.batch_providers import anthropic, gemini
from tests.doubles.batch_providers.desk import Desk, Json, Violation, cut, demand, guarded, run
from tests.doubles.cloud_storage import CloudStorage, Refused

PROJECT = "project-of-the-tests"
LOCATION = "us-central1"
EMAIL = f"batches@{PROJECT}.iam.gserviceaccount.com"
AUDIENCE = "https://oauth2.googleapis.com/token"  # whatever the address of the server
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PARENT = f"/v1/projects/{PROJECT}/locations/{LOCATION}"
GS_FILE = re.compile(r"gs://[a-z0-9][-._a-z0-9]{1,220}[a-z0-9]/.+\.jsonl")
MODEL = re.compile(r"publishers/(google/models/gemini|anthropic/models/claude)-[A-Za-z0-9@._-]+")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
CLAUDE = {
    *("anthropic_version", "anthropic_beta", "messages", "max_tokens", "system", "temperature"),
    *("tools", "tool_choice", "output_config", "output_format", "top_p", "top_k"),
}
MOST_REQUESTS = 200_000


@dataclass
class Job:
    """One job."""

    asked: Json
    lines: list[Json]
    id: str = field(default_factory=lambda: str(secrets.randbits(62)))
    begun: float = field(default_factory=time.monotonic)
    state: str = "JOB_STATE_RUNNING"
    beside: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"projects/510528649030/locations/{LOCATION}/batchPredictionJobs/{self.id}"


def refusal(status: int, message: str) -> Json:
    words = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    word = words.get(status, "INVALID_ARGUMENT" if status < 500 else "UNAVAILABLE")
    return {"error": {"code": status, "message": message, "status": word}}


def check_gemini(body: Json) -> None:
    """Hold a request to Gemini to the protocol; labels are Vertex AI's own."""
    labels = body.get("labels", {})
    demand(isinstance(labels, dict) and len(labels) <= 64, "labels")
    for key, value in labels.items():
        demand(LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value), f"label {key!r}")
    gemini.check_content({name: value for name, value in body.items() if name != "labels"})


def check_claude(body: Json) -> None:
    """Hold a request to Claude to the protocol of Vertex AI."""
    extra = set(body) - CLAUDE
    demand(not extra, f"{sorted(extra)}: Extra inputs are not permitted")
    demand(body.get("anthropic_version") == "vertex-2023-10-16", "anthropic_version")
    demand(isinstance(body.get("max_tokens"), int), "max_tokens")
    anthropic.texts(body["messages"][0]["content"], "messages.0")
    anthropic.texts(body.get("system", "none"), "system")


def claude(model: str, body: Json, desk: Desk) -> Json:
    """Claude's answer."""
    schema = body.get("output_config", {}).get("format", {})
    answer = anthropic.message({**body, "model": model, "output_format": schema}, desk)
    desk.bodies[-1] = body
    return answer


class SignIn:
    """A service account and the tokens that it was given."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.tokens: set[str] = set()

    async def account(self, request: web.Request) -> web.StreamResponse:
        formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        pem = self.key.private_bytes(serialization.Encoding.PEM, *formats).decode()
        return web.json_response(
            {
                **{"type": "service_account", "project_id": PROJECT, "private_key_id": "1"},
                **{"private_key": pem, "client_email": EMAIL, "client_id": "1"},
                "token_uri": f"http://{request.host}/token",
            }
        )

    async def token(self, request: web.Request) -> web.StreamResponse:
        asked = await request.post()
        demand(asked["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer", "grant_type")
        try:
            claims = jwt.decode(
                str(asked["assertion"]), self.key.public_key(), ["RS256"], audience=AUDIENCE
            )
        except jwt.PyJWTError as error:
            raise Violation(f"assertion: {error}") from error
        demand(claims["iss"] == EMAIL and SCOPE in claims["scope"].split(), "claims")
        if self.desk.take_order("refuse_token"):
            told = {"error": "invalid_grant", "error_description": "Account is disabled."}
            return web.json_response(told, status=400)
        token = f"ya29.{secrets.token_hex(16)}"
        self.tokens.add(token)
        self.desk.counts["tokens"] += 1
        return web.json_response(
            {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        )

    def check(self, request: web.Request) -> None:
        said = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if said not in self.tokens:
            self.desk.violations.append(f"{request.method} {request.path}: no token")
            raise Refused(401, "Request had invalid authentication credentials.")


class Jobs:
    """The routes of jobs and of models."""

    def __init__(self, desk: Desk, storage: CloudStorage, sign_in: SignIn) -> None:
        self.desk = desk
        self.storage = storage
        self.sign_in = sign_in
        self.jobs: dict[str, Job] = {}

    def signed(self, handler: Any) -> Any:
        async def answering(request: web.Request) -> web.StreamResponse:
            try:
                self.sign_in.check(request)
            except Refused as refused:
                return web.json_response(refusal(401, str(refused)), status=401)
            answer: web.StreamResponse = await handler(request)
            return answer

        return guarded(self.desk, answering, refusal)

    async def live_gemini(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        check_gemini(body)
        self.desk.counts["requests"] += 1
        return web.json_response(gemini.generated(body, self.desk))

    async def live_claude(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        check_claude(body)
        self.desk.counts["requests"] += 1
        return web.json_response(claude(request.match_info["model"], body, self.desk))

    async def create(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        demand(set(asked) == {"displayName", "model", "inputConfig", "outputConfig"}, "job: keys")
        demand(0 < len(asked["displayName"]) <= 128, "displayName")
        demand(MODEL.fullmatch(asked["model"]), "model")
        source, target = asked["inputConfig"], asked["outputConfig"]
        demand(source["instancesFormat"] == target["predictionsFormat"] == "jsonl", "formats")
        (uri,) = source["gcsSource"]["uris"]
        demand(GS_FILE.fullmatch(uri), "gcsSource")
        demand(target["gcsDestination"]["outputUriPrefix"].startswith("gs://"), "gcsDestination")
        if statuses := self.desk.orders.get("refuse"):
            status = statuses.pop(0)
            return web.json_response(refusal(status, "Not now."), status=status)
        job = self.new_job(asked, uri)
        if self.desk.take_order("cut"):
            return await cut(request)
        return web.json_response(self.shown(job))

    def new_job(self, asked: Json, uri: str) -> Job:
        lines = [orjson.loads(line) for line in self.storage.get(uri).splitlines()]
        demand(0 < len(lines) <= MOST_REQUESTS, "number of requests")
        keys = []
        for line in lines:
            if "anthropic" in asked["model"]:
                demand(set(line) == {"custom_id", "request"}, f"line: {sorted(line)}")
                check_claude(line["request"])
                keys.append(line["custom_id"])
            else:
                demand(set(line) == {"request"}, f"line: {sorted(line)}")
                check_gemini(line["request"])
                keys.append(
                    "".join(value for _, value in sorted(line["request"]["labels"].items()))
                )
        demand(len(set(keys)) == len(keys), "keys are not unique")
        job = Job(asked, lines)
        self.jobs[job.id] = job
        self.desk.note(keys)
        return job

    async def listed(self, request: web.Request) -> web.StreamResponse:
        demand(set(request.query) <= {"filter", "pageSize", "pageToken", "readMask"}, "parameters")
        wanted = re.fullmatch(r'display_name="([^"]+)"', request.query["filter"])
        demand(wanted, "filter")
        size, start = int(request.query["pageSize"]), int(request.query.get("pageToken", 0))
        demand(1 <= size <= 100, "pageSize")
        assert wanted is not None
        jobs = [each for each in self.jobs.values() if each.asked["displayName"] == wanted[1]]
        page: Json = {}
        if shown := [self.shown(each) for each in jobs[start : start + size]]:
            page["batchPredictionJobs"] = shown
        if start + size < len(jobs):
            page["nextPageToken"] = str(start + size)
        return web.json_response(page)

    async def job(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.shown(self.jobs[request.match_info["id"]]))

    def shown(self, job: Job) -> Json:
        if job.state == "JOB_STATE_RUNNING" and self.desk.is_done(job.begun):
            self.finish(job)
        times = {"createTime": "2026-11-27T00:00:00Z", "updateTime": "2026-11-27T00:00:00Z"}
        return {"name": job.name, **job.asked, "state": job.state, **times, **job.beside}

    def finish(self, job: Job) -> None:
        total = len(job.lines)
        if status := self.desk.orders.get("status"):
            job.state = f"JOB_STATE_{status}"
            job.beside["error"] = {"code": 8, "message": "The job timed out."}
            return
        fates = [self.desk.fate(place, total) for place in range(total)]
        pairs = zip(job.lines, fates, strict=True)
        lines = [self.line(job, line, fate) for line, fate in pairs if fate != "expired"]
        lines.reverse()  # results come in any order
        job.state = "JOB_STATE_SUCCEEDED"
        names = {
            "answered": "successfulCount",
            "failed": "failedCount",
            "expired": "incompleteCount",
        }
        stats = {name: str(fates.count(fate)) for fate, name in names.items() if fate in fates}
        prefix = job.asked["outputConfig"]["gcsDestination"]["outputUriPrefix"].rstrip("/")
        folder = f"{prefix}/prediction-model-2026-11-27T00:00:00.000000Z"
        job.beside = {"completionStats": stats, "outputInfo": {"gcsOutputDirectory": folder}}
        bucket, _, name = folder.removeprefix("gs://").partition("/")
        content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        self.storage.put(bucket, f"{name}/predictions.jsonl", content)

    def line(self, job: Job, line: Json, fate: str) -> Json:
        beside = {"processed_time": "2026-11-27T00:00:00.000+00:00"}
        if fate == "failed":
            status = 'Internal Error: {"error": {"code": 500, "message": "It failed."}}'
            return {"status": status, **beside, **line, "response": {}}
        if "anthropic" in job.asked["model"]:
            answer = claude(job.asked["model"].rpartition("/")[2], line["request"], self.desk)
        else:
            answer = gemini.generated(line["request"], self.desk)
        return {"status": "", **beside, **line, "response": answer}


def add_routes(app: web.Application, desk: Desk) -> None:
    sign_in = SignIn(desk)
    storage = CloudStorage(sign_in.check)
    jobs = Jobs(desk, storage, sign_in)

    async def bucket(request: web.Request) -> web.StreamResponse:
        storage.buckets.setdefault(request.match_info["name"], {})
        return web.json_response({})

    async def objects(request: web.Request) -> web.StreamResponse:
        return web.json_response(sorted(storage.buckets[request.match_info["name"]]))

    storage.add_routes(app)
    app.router.add_get("/service-account", sign_in.account)
    app.router.add_post("/token", guarded(desk, sign_in.token, refusal))
    app.router.add_get("/buckets/{name}/make", bucket)
    app.router.add_get("/buckets/{name}/objects", objects)
    google, claudes = f"{PARENT}/publishers/google/models", f"{PARENT}/publishers/anthropic/models"
    for method, path, handler in (
        ("POST", f"{google}/{{model}}:generateContent", jobs.live_gemini),
        ("POST", f"{claudes}/{{model}}:rawPredict", jobs.live_claude),
        ("POST", f"{PARENT}/batchPredictionJobs", jobs.create),
        ("GET", f"{PARENT}/batchPredictionJobs", jobs.listed),
        (
            "GET",
            f"/v1/projects/510528649030/locations/{LOCATION}/batchPredictionJobs/{{id}}",
            jobs.job,
        ),
    ):
        app.router.add_route(method, path, jobs.signed(handler))


if __name__ == "__main__":
    run(add_routes)
