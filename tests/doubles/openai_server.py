"""A judge model over real HTTP: speaks the OpenAI chat-completions protocol, answers by rule.

    python -m tests.doubles.openai_server --port 0 [--latency 0.3] [--outcomes echo|none]

The first line on stdout is its URL. `POST /v1/chat/completions` fills the JSON schema of the
request: a number is 4 (held to the schema's bounds), another choice its first value, a truth value
true, null where null is allowed, a text "ok", an array empty, except `expected_outcomes`, which repeats
the statements listed in the user message. `GET /stats` counts requests, `GET /requests` holds the
last 100 bodies, `POST /reset` forgets both. The end of the model's name chooses a behaviour (see
`BEHAVIOURS`); `slow` or `slow-2.5` waits so many seconds (10), `status-503` answers with that
status.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

Json = dict[str, Any]

OUTCOMES_HEADING = re.compile(r"<data: expected outcomes>", re.IGNORECASE)
STATEMENT = re.compile(r"(\d+)\. (.*)")
ASPECT = re.compile(r"(a\d+): ")
CONCEPT = re.compile(r"\s+(a\d+)(c\d+): ")


def statements(prompt: str) -> list[tuple[int, str]]:
    """The numbered list in the section of the expected outcomes; indented lines go on."""
    lines = iter(prompt.splitlines())
    found: list[tuple[int, str]] = []
    if not any(OUTCOMES_HEADING.match(line) for line in lines):
        return found
    for line in lines:
        if line == "</data>":
            break
        if item := STATEMENT.fullmatch(line):
            found.append((int(item[1]), item[2]))
        elif found:
            number, begun = found[-1]
            found[-1] = (number, f"{begun}\n{line.removeprefix('  ')}")
    return found


def concept_ids(prompt: str) -> dict[str, list[str]]:
    """The numbered aspects of a prompt with the ids of their concepts: `a1: ...`, `  a1c1: ...`."""
    found: dict[str, list[str]] = {}
    for line in prompt.splitlines():
        if item := ASPECT.match(line):
            found[item[1]] = []
        elif (item := CONCEPT.match(line)) and item[1] in found:
            found[item[1]].append(item[1] + item[2])
    return found


class Filler:
    """Fills one JSON schema."""

    def __init__(
        self, schema: Json, outcomes: list[tuple[int, str]], aspects: dict[str, list[str]]
    ) -> None:
        self.root = schema
        self.outcomes = outcomes
        self.aspects = aspects

    def filled(self, schema: Json | None = None, name: str = "") -> Any:
        schema = self.resolved(self.root if schema is None else schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return 4 if 4 in schema["enum"] else schema["enum"][0]
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        if "null" in kinds:
            return None
        return self.of_kind(kinds[0], schema, name)

    def of_kind(self, kind: str | None, schema: Json, name: str) -> Any:
        if kind == "object":
            properties = schema.get("properties", {})
            return {key: self.filled(value, key) for key, value in properties.items()}
        if kind == "array":
            return self.array(schema, name)
        if kind in ("integer", "number"):
            low, high = schema.get("minimum", 4), schema.get("maximum", 4)
            return min(max(4, low), high)
        return True if kind == "boolean" else "ok"

    def array(self, schema: Json, name: str) -> list[Any]:
        items = schema.get("items", {})
        if "outcomes" in name and self.outcomes:
            return [self.outcome(items, *one) for one in self.outcomes]
        if name == "aspects":
            return self.covered(items)
        return [self.filled(items) for _ in range(schema.get("minItems", 0))]

    def covered(self, items: Json) -> list[Any]:
        """Every aspect asked about, all of it covered; asked to name aspects, one."""
        if not self.aspects:
            return [{**self.filled(items), "concepts": ["ok"]}]
        return [
            {**self.filled(items), "id": aspect, "concepts_covered": concepts}
            for aspect, concepts in self.aspects.items()
        ]

    def outcome(self, items: Json, number: int, statement: str) -> Json:
        about = {"statement": statement, "outcome": statement, "index": number, "number": number}
        return {key: about.get(key, value) for key, value in self.filled(items).items()}

    def resolved(self, schema: Json) -> Json:
        while "$ref" in schema:
            target: Any = self.root
            for step in schema["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            schema = target
        choices = schema.get("anyOf") or schema.get("oneOf")
        if not choices:
            return schema
        nullable = [one for one in choices if one.get("type") == "null"]
        return self.resolved((nullable or choices)[0])


def schema_of(body: Json) -> Json | None:
    """The schema of the request: as response format, else as the last JSON line of the system text."""
    wanted = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if wanted is not None:
        return dict(wanted)
    for line in reversed(text_of(body, "system").splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    return None


def text_of(body: Json, role: str) -> str:
    return "\n".join(m["content"] for m in body["messages"] if m["role"] == role)


def completion(body: Json, message: Json, finish: str = "stop") -> Json:
    words = sum(len(str(m["content"])) for m in body["messages"])
    out = len(message.get("content") or "")
    usage = {"prompt_tokens": words // 4 + 1, "completion_tokens": out // 4 + 1}
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "service_tier": "default",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": finish,
            }
        ],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def _without(key: str) -> Callable[[Json, str], Json]:
    return lambda body, text: {
        name: value for name, value in completion(body, {"content": text}).items() if name != key
    }


BEHAVIOURS: Mapping[str, Callable[[Json, str], Json]] = {
    "fenced": lambda b, t: completion(b, {"content": f"```json\n{t}\n```"}),
    "invalid": lambda b, t: completion(b, {"content": "not json"}),
    "refuse": lambda b, t: completion(b, {"content": None, "refusal": "I will not judge this."}),
    "filtered": lambda b, t: completion(b, {"content": t[:5]}, "content_filter"),
    "truncated": lambda b, t: completion(b, {"content": t[: len(t) // 2]}, "length"),
    "empty": lambda b, t: completion(b, {"content": None}),
    "no-choices": lambda b, t: {**completion(b, {"content": t}), "choices": []},
    "no-usage": _without("usage"),
}


def fault(status: int, authorization: str, text: str) -> tuple[int, Json, dict[str, str]]:
    """An error as the protocol has them; 401 repeats the key, as providers do."""
    key = authorization.removeprefix("Bearer ")
    kind = {"quota": "insufficient_quota", "context": "context_length_exceeded"}.get(text)
    messages = {
        "quota": "You exceeded your current quota, please check your plan and billing details.",
        "context": "This model's maximum context length is 8192 tokens.",
        "policy": "The response was filtered due to the prompt triggering content_filter.",
        "401": f"Incorrect API key provided: {key}. Header was Authorization: Bearer {key}",
    }
    kind = kind or ("content_filter" if text == "policy" else "error")
    message = messages.get(text, f"stub answers {status}")
    body = {"error": {"message": message, "type": kind, "param": None, "code": kind}}
    return status, body, {"Retry-After": "1"} if status == 429 else {}


NAMED_FAULTS = {"quota": 429, "context": 400, "policy": 400}


class Server:
    """Counts, remembers and answers."""

    def __init__(self, latency_s: float, outcomes: str) -> None:
        self.latency_s = latency_s
        self.outcomes = outcomes
        self.forget()

    def forget(self) -> None:
        self.models: Counter[str] = Counter()
        self.bodies: deque[Json] = deque(maxlen=100)
        self.prompts: set[str] = set()
        self.in_flight = 0
        self.peak = 0

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.models[body["model"]] += 1
        self.bodies.append(body)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return await self.answer(body, request.headers.get("Authorization", ""))
        finally:
            self.in_flight -= 1

    async def answer(self, body: Json, authorization: str) -> web.Response:
        model = body["model"]
        slow = re.search(r"\bslow(?:-([\d.]+))?$", model)
        wait_s = float(slow[1] or 10) if slow else self.latency_s
        if wait_s:
            await asyncio.sleep(wait_s)
        name = re.search(r"(?:status-(\d{3})|quota|context|policy)$", model)
        if name:
            status = int(name[1] or NAMED_FAULTS[name[0]])
            status, error, headers = fault(status, authorization, name[1] or name[0])
            return web.json_response(error, status=status, headers=headers)
        return web.json_response(self.reply(body))

    def reply(self, body: Json) -> Json:
        outcomes = statements(text_of(body, "user")) if self.outcomes == "echo" else []
        schema = schema_of(body)
        aspects = concept_ids(text_of(body, "user"))
        filler = schema and Filler(schema, outcomes, aspects)
        text = json.dumps(filler.filled()) if filler else "ok"
        model = body["model"]
        if model.endswith("invalid-once") and self.is_new(body):
            return BEHAVIOURS["invalid"](body, text)
        name = next((name for name in BEHAVIOURS if model.endswith(name)), None)
        return BEHAVIOURS[name](body, text) if name else completion(body, {"content": text})

    def is_new(self, body: Json) -> bool:
        """Whether no earlier user message is the beginning of this one."""
        prompt = text_of(body, "user")
        new = not any(prompt.startswith(earlier) for earlier in self.prompts)
        self.prompts.add(prompt)
        return new

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"requests": self.models.total(), "models": self.models, "peak": self.peak}
        )

    async def requests(self, request: web.Request) -> web.Response:
        return web.json_response(list(self.bodies))

    async def reset(self, request: web.Request) -> web.Response:
        self.forget()
        return web.json_response({})


async def serve(port: int, server: Server) -> None:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_get("/stats", server.stats)
    app.router.add_get("/requests", server.requests)
    app.router.add_post("/reset", server.reset)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    host, bound = runner.addresses[0][:2]
    print(f"http://{host}:{bound}", flush=True)  # noqa: T201  # the contract of this program
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--outcomes", choices=("echo", "none"), default="echo")
    given = parser.parse_args()
    asyncio.run(serve(given.port, Server(given.latency, given.outcomes)))


if __name__ == "__main__":
    main()
