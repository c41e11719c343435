"""A bare client of the judge model, for tests of the model server itself."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tests.doubles.fixtures import OpenAIServer

REPLY_ID = "00c0ffee1234"
SCHEMA = {
    "type": "object",
    "properties": {
        "reply_id": {"type": "string"},
        "rationale": {"type": "string"},
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
        "safe": {"type": "boolean"},
    },
}
RIGHT = {"reply_id": REPLY_ID, "rationale": "ok", "score": 4, "safe": True}
COMPLAINT = "\n\nYour previous answer to this could not be used: not json"


def body(model: str, prompt: str = "Was it good?", **rest: Any) -> dict[str, Any]:
    """A request whose prompt ends with its reply id."""
    said, complaint, _ = prompt.partition(COMPLAINT)
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": rest.pop("system", "You judge.")},
            {"role": "user", "content": f"{said}\n\nReply id: {REPLY_ID}{complaint}"},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "Reply", "strict": True, "schema": SCHEMA},
        },
        **rest,
    }


class Reached:
    """An answer over HTTP: its status, headers and body, or the failure in its place."""

    def __init__(self, status: int = 0, headers: Any = None, text: str = "", failure: str = ""):
        self.status = status
        self.headers = headers or {}
        self.raw = text
        self.failure = failure

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def text(self) -> str:
        """What the model said."""
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def how(self) -> str:
        """In a word: the failure, the status that is not 200, or what kind of answer came."""
        if self.failure or self.status != 200:
            return self.failure or str(self.status)
        if not self.raw.startswith("{"):
            return "html"
        if not self.json.get("choices"):
            return "no choices" if "choices" in self.json else "error"
        return self._choice(self.json["choices"][0])

    def _choice(self, choice: dict[str, Any]) -> str:
        if choice["message"].get("refusal"):
            return "refusal"
        if choice["finish_reason"] != "stop" or not choice["message"]["content"]:
            return str(choice["finish_reason"])
        return "good" if self.text == json.dumps(RIGHT) else "bad text"


async def ask(
    server: OpenAIServer, model: str, prompt: str = "Was it good?", *, timeout_s=5.0, **rest: Any
) -> Reached:
    """Put one request to the server, on a connection of its own."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    url = f"{server.api_base}/chat/completions"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json=body(model, prompt, **rest)) as response,
        ):
            return Reached(response.status, response.headers, await response.text())
    except TimeoutError:
        return Reached(failure="timeout")
    except aiohttp.ClientError as error:
        return Reached(failure=type(error).__name__)


async def tries(server: OpenAIServer, model: str, times: int, prompt: str = "Good?") -> list[str]:
    """How the same prompt fares so many times in a row."""
    return [(await ask(server, model, prompt)).how for _ in range(times)]
