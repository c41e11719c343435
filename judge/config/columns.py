"""[transcripts.columns]: which column of a table of conversations holds what."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from assizes.judge.config import ConfigTable

ColumnRole = Literal["user", "assistant", "system", "tool", "ignore"]
"""Who speaks in a row; a row of the role `ignore` is no part of the conversation."""

LAYOUTS: Final = (
    "give role and text (a row is a turn), request and response (a row is a question and its "
    "answer) or conversation (a row is a whole conversation)"
)


def plain_word(word: Any) -> str:
    """A cell that names a speaker, as `roles` compares it: lower case, `_` between words."""
    return "_".join(str(word).strip().lower().replace("-", " ").replace("_", " ").split())


class TranscriptColumns(ConfigTable):
    """[transcripts.columns]: the columns of a table; a row is a turn, an exchange or the whole."""

    id: str | None = Field(default=None, description="the id of the conversation")
    turn: str | None = Field(
        default=None, description="number or time by which the rows of a conversation are ordered"
    )
    role: str | None = Field(default=None, description="who speaks, where a row is a turn")
    text: str | None = Field(default=None, description="what is said, where a row is a turn")
    request: str | None = Field(
        default=None, description="what the user asks, where a row is a question and its answer"
    )
    response: str | None = Field(default=None, description="what the agent answers in such a row")
    conversation: str | None = Field(
        default=None,
        description="all messages, where a row is a whole conversation: a JSON list of messages, or "
        "text whose lines begin with the speaker, as in `User: hello`",
    )
    system: str | None = Field(default=None, description="the system prompt of the agent")
    tool_calls: str | None = Field(
        default=None, description="JSON list of the tool calls of a turn, as in chat completions"
    )
    tool_call_id: str | None = Field(
        default=None, description="the call that a turn of a tool answers"
    )
    tool_name: str | None = Field(default=None, description="the tool that answers in such a turn")
    started_at: str | None = Field(
        default=None, description="when the turn, or the conversation, began"
    )
    latency_ms: str | None = Field(
        default=None, description="how long the agent took, in milliseconds"
    )
    agent: str | None = Field(default=None, description="the name of the agent")
    agent_version: str | None = Field(default=None, description="the version of the agent")
    user: str | None = Field(
        default=None, description="whose conversations belong together, for the statistics"
    )
    expected_response: str | None = Field(default=None, description="the answer that is expected")
    expected_outcomes: str | None = Field(
        default=None, description="what must hold at the end: a JSON list, or a statement a line"
    )
    retrieved_context: str | None = Field(
        default=None, description="retrieved passages: a JSON list, or one text"
    )
    tags: tuple[str, ...] = Field(default=(), description="columns that are kept as tags")
    roles: dict[str, ColumnRole] = Field(
        default_factory=dict,
        description='further words of the column `role`: { kunde = "user" }; `ignore` leaves the '
        "row out",
    )

    @field_validator("roles")
    @classmethod
    def _as_compared(cls, value: dict[str, ColumnRole]) -> dict[str, ColumnRole]:
        return {plain_word(word): role for word, role in value.items()}

    @model_validator(mode="after")
    def _has_one_layout(self) -> Self:
        layouts = [
            (self.role or self.text) is not None,
            (self.request or self.response) is not None,
            self.conversation is not None,
        ]
        if sum(layouts) != 1:
            raise ValueError(LAYOUTS if not any(layouts) else f"{LAYOUTS}, one of the three")
        if layouts[0] and not (self.role and self.text):
            raise ValueError("role and text: a table with a turn in each row needs both")
        if self.joins_rows and self.id is None:
            raise ValueError("id: needed where several rows make one conversation")
        if self.conversation is not None and self.turn is not None:
            raise ValueError("turn: a row that holds a whole conversation has no turn")
        return self

    @property
    def joins_rows(self) -> bool:
        """Whether several rows of one id make a conversation."""
        return self.role is not None or (self.turn is not None and self.conversation is None)

    def names(self) -> set[str]:
        """The columns that are read."""
        single = self.model_dump(exclude={"tags", "roles"}).values()
        return {name for name in (*single, *self.tags) if name is not None}
