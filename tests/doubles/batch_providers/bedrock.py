"""Amazon Bedrock's model invocation jobs over real HTTP; every request is held to the protocol.

    AWS_ENDPOINT_URL_S3=... python -m tests.doubles.batch_providers.bedrock --port 0

Requests are read from the bucket of an S3 server, and results are written there. Patterns and bounds
are those of the published service model. Beside the orders of `desk.py`: `least` (records of a job,
else 100), `status` (of every job that ends without results), `hide` (the list shows no job).
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.doubles.batch_providers import anthropic
from tests.doubles.batch_providers.desk import Desk, Json, cut, demand, guarded, run
from tests.doubles.openai_filler import answer_text

ACCOUNT = "123456789012"
SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/ ]+/[0-9]{8}/us-east-1/bedrock/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*x-amz-date[a-z0-9;-]*, Signature=[0-9a-f]{64}"
)
JOB_NAME = re.compile(r"[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9\+\-\.]){0,63}")
TOKEN = re.compile(r"[a-zA-Z0-9]{1,256}(-*[a-zA-Z0-9]){0,256}")
ROLE = re.compile(r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+")
MODEL = re.compile(
    r"[a-z0-9-]{1,63}[.][a-z0-9-]{1,63}([.]?[a-z0-9-]{1,63})([:][a-z0-9-]{1,63}){0,2}"
)
S3_URI = re.compile(
    r"s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](/[-!_*'().a-z0-9A-Z]+(/[-!_*'().a-z0-9A-Z]+)*)?/?"
)
REQUIRED = {"jobName", "roleArn", "modelId", "inputDataConfig", "outputDataConfig"}
KNOWN = REQUIRED | {"clientRequestToken", "modelInvocationType", "timeoutDurationInHours"}
CLAUDE = {
    *("anthropic_version", "anthropic_beta", "messages", "max_tokens", "system", "temperature"),
    *("tools", "tool_choice", "output_config", "top_p", "top_k", "stop_sequences", "thinking"),
}
CONVERSE = {
    *("messages", "system", "inferenceConfig", "toolConfig", "outputConfig"),
    *("additionalModelRequestFields", "additionalModelResponseFieldPaths"),
}
MOST_RECORDS = 50_000
ERRORS = {400: "ValidationException", 404: "ResourceNotFoundException", 429: "ThrottlingException"}


@dataclass
class Job:
    """One job."""

    asked: Json
    records: list[Json]
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    begun: float = field(default_factory=time.monotonic)
    status: str = "InProgress"
    message: str | None = None
    counts: Json = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return f"arn:aws:bedrock:us-east-1:{ACCOUNT}:model-invocation-job/{self.id}"


def refusal(status: int, message: str) -> Json:
    return {"__type": ERRORS.get(status, "InternalServerException"), "message": message}


def check_claude(body: Json) -> None:
    """Hold the body of an `InvokeModel` request to the protocol."""
    extra = set(body) - CLAUDE
    demand(not extra, f"{sorted(extra)}: Extra inputs are not permitted")
    demand(body.get("anthropic_version") == "bedrock-2023-05-31", "anthropic_version")
    demand(isinstance(body.get("max_tokens"), int), "max_tokens")
    demand([one["role"] for one in body["messages"]] == ["user"], "messages: roles")
    anthropic.texts(body["messages"][0]["content"], "messages.0")
    anthropic.texts(body.get("system", "none"), "system")


def claude(model: str, body: Json, desk: Desk) -> Json:
    """Claude's answer in its own format."""
    schema = body.get("output_config", {}).get("format", {})
    answer = anthropic.message({**body, "model": model, "output_format": schema}, desk)
    desk.bodies[-1] = body
    return answer


def check_converse(body: Json) -> None:
    """Hold the body of a `Converse` request to the protocol."""
    extra = set(body) - CONVERSE
    demand(not extra, f"{sorted(extra)}: unknown")
    demand([one["role"] for one in body["messages"]] == ["user"], "messages: roles")
    demand(all(set(part) == {"text"} for part in body["messages"][0]["content"]), "content")


def converse(body: Json, desk: Desk) -> Json:
    """The answer of any model to a `Converse` request."""
    desk.remember(body)
    user = "".join(part["text"] for part in body["messages"][0]["content"])
    system = "".join(part.get("text", "") for part in body.get("system", []))
    schema = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {})
    wanted = schema.get("jsonSchema", {}).get("schema")
    text = answer_text(wanted.encode() if wanted else None, user)
    usage = {"inputTokens": len(user + system) // 4 + 1, "outputTokens": len(text) // 4 + 1}
    desk.counts["input_tokens"] += usage["inputTokens"]
    desk.counts["output_tokens"] += usage["outputTokens"]
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
        "stopReason": "end_turn",
        "usage": {**usage, "totalTokens": sum(usage.values())},
        "metrics": {"latencyMs": 7},
    }


class Jobs:
    """The routes of jobs and of models."""

    def __init__(self, desk: Desk) -> None:
        import boto3

        self.desk = desk
        self.s3 = boto3.client("s3")  # address and credentials are in the environment
        self.jobs: dict[str, Job] = {}
        self.by_token: dict[str, Job] = {}

    def check_signature(self, request: web.Request) -> None:
        demand(SIGNED.fullmatch(request.headers.get("Authorization", "")), "Authorization")

    async def live(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        demand(request.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256"), "signature")
        self.desk.counts["requests"] += 1
        model = request.match_info["model"]
        if request.match_info["kind"] == "invoke":
            check_claude(body)
            return web.json_response(claude(model, body, self.desk))
        check_converse(body)
        return web.json_response(converse(body, self.desk))

    async def create(self, request: web.Request) -> web.StreamResponse:
        self.check_signature(request)
        asked = orjson.loads(await request.read())
        demand(set(asked) >= REQUIRED, f"missing: {sorted(REQUIRED - set(asked))}")
        demand(set(asked) <= KNOWN, f"unknown: {sorted(set(asked) - KNOWN)}")
        demand(JOB_NAME.fullmatch(asked["jobName"]) and len(asked["jobName"]) <= 63, "jobName")
        demand(TOKEN.fullmatch(asked["clientRequestToken"]), "clientRequestToken")
        demand(ROLE.fullmatch(asked["roleArn"]), "roleArn")
        demand(MODEL.fullmatch(asked["modelId"]), "modelId")
        demand(asked["modelInvocationType"] in ("InvokeModel", "Converse"), "modelInvocationType")
        demand(24 <= asked["timeoutDurationInHours"] <= 168, "timeoutDurationInHours")
        source = asked["inputDataConfig"]["s3InputDataConfig"]
        demand(source.get("s3InputFormat", "JSONL") == "JSONL", "s3InputFormat")
        target = asked["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        demand(S3_URI.fullmatch(source["s3Uri"]) and S3_URI.fullmatch(target), "s3Uri")
        demand(source["s3Uri"].endswith(".jsonl"), "the file must end in .jsonl")
        if statuses := self.desk.orders.get("refuse"):
            status = statuses.pop(0)
            headers = {"x-amzn-ErrorType": ERRORS.get(status, "InternalServerException")}
            return web.json_response(refusal(status, "Not now."), status=status, headers=headers)
        job = self.by_token.get(asked["clientRequestToken"])
        if job is None:
            job = self.new_job(asked, source["s3Uri"])
        demand(job.asked == asked, "the token was used with other parameters")
        if self.desk.take_order("cut"):
            return await cut(request)
        return web.json_response({"jobArn": job.arn})

    def new_job(self, asked: Json, uri: str) -> Job:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        body = self.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        records = [orjson.loads(line) for line in body.splitlines()]
        keys = [one["recordId"] for one in records]
        demand(all(set(one) == {"recordId", "modelInput"} for one in records), "record: keys")
        demand(all(key.isalnum() for key in keys), "recordId")
        demand(len(set(keys)) == len(keys) <= MOST_RECORDS, "recordId: not unique, or too many")
        for one in records:
            if asked["modelInvocationType"] == "InvokeModel":
                check_claude(one["modelInput"])
            else:
                check_converse(one["modelInput"])
                demand("toolConfig" not in one["modelInput"], "toolConfig in a Converse job")
        job = Job(asked, records)
        if len(records) < int(self.desk.orders.get("least", 100)):
            job.status, job.message = "Failed", "The job has fewer records than the minimum."
        self.jobs[job.id] = self.by_token[asked["clientRequestToken"]] = job
        self.desk.note(keys)
        return job

    async def listed(self, request: web.Request) -> web.StreamResponse:
        self.check_signature(request)
        demand(set(request.query) <= {"nameContains", "maxResults", "nextToken"}, "parameters")
        size, start = int(request.query["maxResults"]), int(request.query.get("nextToken", 0))
        demand(1 <= size <= 1000, "maxResults")
        wanted = request.query["nameContains"]
        jobs = [one for one in self.jobs.values() if wanted in one.asked["jobName"]]
        jobs = [] if self.desk.orders.get("hide") else jobs
        page: Json = {
            "invocationJobSummaries": [self.shown(one) for one in jobs[start : start + size]]
        }
        if start + size < len(jobs):
            page["nextToken"] = str(start + size)
        return web.json_response(page)

    async def job(self, request: web.Request) -> web.StreamResponse:
        self.check_signature(request)
        return web.json_response(self.shown(self.jobs[request.match_info["id"].split("/")[-1]]))

    def shown(self, job: Job) -> Json:
        if job.status == "InProgress" and self.desk.is_done(job.begun):
            self.finish(job)
        asked = job.asked
        names = ("jobName", "modelId", "roleArn", "inputDataConfig", "outputDataConfig")
        shown: Json = {name: asked[name] for name in names}
        shown |= {"jobArn": job.arn, "status": job.status, "submitTime": "2026-11-27T00:00:00Z"}
        shown |= {"clientRequestToken": asked["clientRequestToken"], **job.counts}
        return shown | ({"message": job.message} if job.message else {})

    def finish(self, job: Job) -> None:
        total = len(job.records)
        if status := self.desk.orders.get("status"):
            job.status, job.message = status, "The job timed out."
            return
        fates = [self.desk.fate(place, total) for place in range(total)]
        lines = [
            self.line(job, one, fate)
            for one, fate in zip(job.records, fates, strict=True)
            if fate != "expired"
        ]
        lines.reverse()  # results come in any order
        job.status = "PartiallyCompleted" if "expired" in fates else "Completed"
        job.counts = {
            "totalRecordCount": total,
            "processedRecordCount": len(lines),
            "successRecordCount": fates.count("answered"),
            "errorRecordCount": fates.count("failed"),
        }
        source = job.asked["inputDataConfig"]["s3InputDataConfig"]["s3Uri"].rpartition("/")[2]
        target = job.asked["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"].removeprefix("s3://")
        bucket, _, prefix = target.rstrip("/").partition("/")
        for name, body in (
            (f"{source}.out", b"".join(orjson.dumps(one) + b"\n" for one in lines)),
            ("manifest.json.out", orjson.dumps(job.counts)),
        ):
            self.s3.put_object(Bucket=bucket, Key=f"{prefix}/{job.id}/{name}", Body=body)

    def line(self, job: Job, record: Json, fate: str) -> Json:
        if fate == "failed":
            return {**record, "error": {"errorCode": 500, "errorMessage": "It failed."}}
        body: Any = record["modelInput"]
        if job.asked["modelInvocationType"] == "Converse":
            return {**record, "modelOutput": converse(body, self.desk)}
        return {**record, "modelOutput": claude(job.asked["modelId"], body, self.desk)}


def add_routes(app: web.Application, desk: Desk) -> None:
    jobs = Jobs(desk)
    for method, path, handler in (
        ("POST", "/model/{model}/{kind:invoke|converse}", jobs.live),
        ("POST", "/model-invocation-job", jobs.create),
        ("GET", "/model-invocation-jobs", jobs.listed),
        ("GET", "/model-invocation-job/{id:.+}", jobs.job),
    ):
        app.router.add_route(method, path, guarded(desk, handler, refusal))


if __name__ == "__main__":
    run(add_routes)
