"""Hostile texts in messages to a chat program, rendered by Prefect and sent as its Slack block does."""

from __future__ import annotations

import html
import re
from typing import Any
from uuid import uuid4

import apprise
import pytest
from apprise.plugins.slack import NotifySlack
from prefect.client.schemas.objects import BlockDocument
from prefect.events.actions import SendNotification
from prefect.server.utilities.user_templates import render_user_template_sync

from assizes.deployments.registration.automations import Notifier
from tests.server.house import webhook

FIELDS = {"run_id": "event.payload.run_id", "reasons": "event.payload.reasons"}

ORDERS = (
    "<!channel> look",
    "!channel> look",
    "<!here|here>",
    "&lt;!channel&gt;",
    "&lt;!channel> and &amp;lt;@U6TTX1F9R&amp;gt;",
    "<@U6TTX1F9R>",
    "@U6TTX1F9R|me>",
    "@here @channel @everyone",
    "<http://evil.example/login|Log in>",
    "http://evil.example|Log in>",
    "https://evil.example/login",
    "[Log in](evil.example)",
    "mailto://a@evil.example>",
    "*bold* ~gone~ `code` ```block```",
    "<script>alert(1)</script>",
    "fine\nrun_id: another\r\nstatus: passed",
)

SLACK_ORDER = re.compile(
    r"<[!@#]|<[a-z]+:|@(?:here|channel|everyone)|://|\*|`|~|\]\(", re.IGNORECASE
)


def received_text(payload: dict[str, Any], template: str | None = None) -> str:
    """The text of a message as it arrives at an address like Slack's."""
    action = Notifier(
        BlockDocument(id=uuid4(), name="oncall", block_schema_id=uuid4(), block_type_id=uuid4())
    ).action("regression", FIELDS)
    assert isinstance(action, SendNotification)
    body = render_user_template_sync(template or action.body, {"event": {"payload": payload}})
    with webhook() as hook:
        slack = NotifySlack(token_a="T" + "A" * 8, token_b="B" * 9, token_c="c" * 24)
        slack.webhook_url = hook.url
        client = apprise.Apprise()
        client.add(slack)
        client.notify(body=body, title=action.subject)
    text: str = hook.bodies[0]["attachments"][0]["text"]
    return text


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("field", ["run_id", "reasons"])
def test_nothing_that_others_wrote_is_an_order_to_slack(field, order):
    payload = {"run_id": "nights-1", "reasons": ["the pass rate fell"]}
    text = received_text(payload | {field: [order] if field == "reasons" else order})
    assert SLACK_ORDER.search(text) is None
    assert [line.partition(":")[0] for line in text.splitlines()] == ["run_id", "reasons"]
    shown = html.unescape(text)
    assert "<" not in shown.replace("&lt;", "")
    assert len(shown) > len(order)


def test_slack_would_have_obeyed_what_is_left_as_it_is():
    payload = {"run_id": "&lt;!channel&gt; <http://evil.example|Log in>"}
    text = received_text(payload, "{{ event.payload.run_id }}")
    assert "<http://evil.example|Log in>" in text


def test_plain_words_and_numbers_are_told_as_they_are():
    reasons = ["cases_pass_rate_pct 71.4 < 80 & falling", "case 'a-1' #7"]
    text = html.unescape(received_text({"run_id": "nights-2026_11", "reasons": reasons}))
    assert text == (
        "run_id: nights-2026_11\n"
        "reasons: ['cases_pass_rate_pct 71.4 \u2039 80 & falling', \"case 'a-1' #7\"]"
    )
