"""Tables of conversations: CSV, TSV, Parquet or rows of JSON, read as [transcripts.columns] says.

    ticket,n,speaker,words
    77,1,customer,Where is my order?
    77,2,bot,It is on its way.

A row is a turn of a conversation, a question and its answer, or a whole conversation. Rows reach
this module as JSON objects, one a line, without the cells that are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from assizes.judge.case import MOST_MS, Case, Chunk, Expected, Transcript, Turn
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared import table_cells as cells
from assizes.judge.formats.shared.containers import Format, Piece, piece_format
from assizes.judge.formats.shared.messages import ConversationBuilder
from assizes.judge.formats.shared.parsing import FidelityCounter, schema_errors, strict_json
from assizes.judge.formats.shared.provider_messages import add_openai_messages

TABLE: Final = "table"
"""The name of the format."""

_MAX_COLUMNS: Final = 12  # named in the reason of a reject
_NO_KEYS: Final = frozenset[str]()  # no file is recognised as a table: the configuration says so


def table_formats(columns: TranscriptColumns) -> dict[str, Format]:
    """The formats of a table with these columns, by name: by line, and as one JSON document."""
    reader = _TableReader(columns)
    if columns.joins_rows:
        return {TABLE: piece_format(TABLE, _NO_KEYS, bool, reader.pieces, reader.joined_case)}

    def records(document: bytes) -> list[Any]:
        value = strict_json(document)
        return value if isinstance(value, list) else [value]

    by_line = Format(
        name=TABLE,
        keys=_NO_KEYS,
        fits=bool,
        case=lambda record: reader.row_case(strict_json(record)),
    )
    document = Format(
        name=f"{TABLE}.document",
        keys=_NO_KEYS,
        fits=bool,
        case=reader.row_case,
        records=records,
        by_line=False,
    )
    return {TABLE: by_line, document.name: document}


@dataclass(frozen=True)
class _TableReader:
    """Makes cases of rows; `columns` names what is read."""

    columns: TranscriptColumns

    def pieces(self, value: Any) -> Iterator[Piece]:
        """The row as a piece of its conversation."""
        row = self._row(value)
        case_id = cells.id_of_cell(self._cell(row, "id"))
        if case_id is None:
            raise self._missing(row, "id")
        yield Piece(case_id, None, row)

    def row_case(self, value: Any) -> Case:
        """The case of a row that is a whole conversation, or one question with its answer."""
        with schema_errors():
            return self.joined_case([self._row(value)])

    def joined_case(self, rows: list[Any]) -> Case:
        """The case of all rows of one conversation."""
        builder = _TimedBuilder(FidelityCounter())
        prompts = set[str]()  # of the column `system`, which may repeat one in every row
        for row in self._ordered(rows):
            for name in row.keys() - self.columns.names():
                builder.tally.count("unread", name)
            system = self._cell(row, "system")
            if system is not None and (prompt := shapes.as_text(system)) not in prompts:
                prompts.add(prompt)
                builder.add({"role": "system", "content": system}, {})
            for message in self._messages(row):
                builder.add(message, self._figures(row) if self.columns.joins_rows else {})
        if not builder.turns:
            raise DataError("schema", "row: no user and no agent says anything in it")
        if self.columns.text and not any(map(_says_anything, builder.turns)):
            raise self._missing(rows[0], "text")
        first = self._first_cells(rows)
        context = first.get("retrieved_context")
        transcript = Transcript(
            turns=tuple(builder.turns),
            system=builder.system_text(),
            started_at=shapes.moment(first.get("started_at")),
            duration_ms=None,
            chunks=None
            if context is None
            else tuple(Chunk(**passage) for passage in cells.passages_of_cell(context)),
        )
        if not self.columns.joins_rows:
            transcript = _with_latency(transcript, _milliseconds(first.get("latency_ms")))
        return Case(
            case_id=cells.id_of_cell(first.get("id")) or shapes.content_id(rows),
            transcript=transcript,
            expected=_expected_values(first),
            agent=shapes.name_of(first.get("agent")),
            agent_version=cells.id_of_cell(first.get("agent_version")),
            tags=self._tags(rows),
            cluster=cells.id_of_cell(first.get("user")),
            metadata=builder.metadata(),
        )

    def _row(self, value: Any) -> dict[str, Any]:
        if isinstance(value, str):  # in place of a row that the file does not hold as one
            raise DataError("csv", value)
        return shapes.mapping(value, "row")

    def _cell(self, row: Mapping[str, Any], field: str) -> Any:
        name = getattr(self.columns, field)
        return None if name is None else row.get(name)

    def _missing(self, row: Mapping[str, Any], *fields: str) -> DataError:
        names = " and ".join(repr(getattr(self.columns, field)) for field in fields)
        shown = ", ".join(list(row)[:_MAX_COLUMNS])
        return DataError(
            "schema",
            f"{fields[0]}: nothing in column {names}; filled in this row: {shown or 'nothing'}; "
            "[transcripts.columns] names the columns",
        )

    def _messages(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What is said in a row, as messages in the shape of chat completions."""
        columns = self.columns
        if columns.role is not None:
            yield from self._turn_message(row)
        elif columns.conversation is not None:
            if (conversation := self._cell(row, "conversation")) is None:
                raise self._missing(row, "conversation")
            messages = cells.messages_of_cell(conversation, columns.roles)
            yield from (message for message in messages if message["role"] != "ignore")
        else:
            yield from self._exchange(row)

    def _exchange(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        request, response = (self._cell(row, field) for field in ("request", "response"))
        if request is None and response is None:
            fields = [name for name in ("request", "response") if getattr(self.columns, name)]
            raise self._missing(row, *fields)
        if request is not None:
            yield {"role": "user", "content": request}
        calls = self._cell(row, "tool_calls")
        if response is not None or calls is not None:
            yield {"role": "assistant", "content": response, "tool_calls": calls}

    def _turn_message(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if (word := self._cell(row, "role")) is None:
            raise self._missing(row, "role")
        role = cells.role_of(word, self.columns.roles)
        if role == "ignore":
            return
        message = {"role": role, "content": self._cell(row, "text")}
        if role == "tool":
            call_id, name = (self._cell(row, field) for field in ("tool_call_id", "tool_name"))
            yield {**message, "tool_call_id": call_id, "name": name}
        elif role == "assistant":
            yield {**message, "tool_calls": self._cell(row, "tool_calls")}
        else:
            yield message

    def _figures(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What a row says of its turn besides its words."""
        return {
            "started_at": shapes.moment(self._cell(row, "started_at")),
            "latency_ms": _milliseconds(self._cell(row, "latency_ms")),
        }

    def _ordered(self, rows: list[Any]) -> list[Any]:
        """The rows by their turns; as they stand in the file where no column orders them."""
        if self.columns.turn is None or len(rows) < 2:
            return rows
        places = [row.get(self.columns.turn) for row in rows]
        # Of one kind for all rows: a number and a time have no order.
        kinds: tuple[Callable[[Any], Any], ...] = (shapes.amount, shapes.moment)
        for kind in kinds:
            keys = [kind(place) for place in places]
            if None not in keys:
                return [rows[at] for at in sorted(range(len(rows)), key=keys.__getitem__)]
        odd = next(place for place in places if shapes.amount(place) is None)
        raise DataError(
            "schema",
            f"turn: column {self.columns.turn!r} holds {shapes.as_text(odd)[:40]!r} in a row of this "
            "conversation, expected a number or a time in each",
        )

    def _first_cells(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The first cell of each field that is filled in any of the rows."""
        values = {
            field: [row[name] for row in rows if row.get(name) is not None]
            for field, name in self.columns.model_dump(exclude={"tags", "roles"}).items()
            if name is not None
        }
        return {field: filled[0] for field, filled in values.items() if filled}

    def _tags(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        return {
            name: shapes.as_text(value)
            for name in self.columns.tags
            if (value := next((row[name] for row in rows if row.get(name) is not None), None))
            is not None
        }


class _TimedBuilder(ConversationBuilder):
    """A conversation whose turns are given the figures of their rows."""

    def add(self, message: dict[str, Any], figures: Mapping[str, datetime | float | None]) -> None:
        """Add one message; its figures go to its turn, a latency to one of the agent only."""
        before = len(self.turns)
        add_openai_messages([message], self)
        for place in range(before, len(self.turns)):  # none for a system prompt
            turn: Turn = self.turns[place]
            known = {name: value for name, value in figures.items() if value is not None}
            if turn.role != "assistant":
                known.pop("latency_ms", None)
            self.turns[place] = turn.model_copy(update=known)


def _says_anything(turn: Turn) -> bool:
    return bool(turn.text or turn.tool_calls or turn.tool_result)


def _with_latency(transcript: Transcript, latency_ms: float | None) -> Transcript:
    """The transcript with the latency of a row in its only turn of the agent, else as a whole."""
    if latency_ms is None:
        return transcript
    places = [at for at, turn in enumerate(transcript.turns) if turn.role == "assistant"]
    if len(places) != 1:
        return transcript.model_copy(update={"duration_ms": latency_ms})
    turns = list(transcript.turns)
    turns[places[0]] = turns[places[0]].model_copy(update={"latency_ms": latency_ms})
    return transcript.model_copy(update={"turns": tuple(turns)})


def _milliseconds(cell: Any) -> float | None:
    """A duration in a cell; `None` for one that no clock measures."""
    number = shapes.amount(cell)
    return number if number is not None and 0 <= number <= MOST_MS else None


def _expected_values(first: Mapping[str, Any]) -> Expected:
    response = first.get("expected_response")
    outcomes = first.get("expected_outcomes")
    return Expected(
        response=None if response is None else shapes.as_text(response),
        outcomes=() if outcomes is None else tuple(cells.texts_of_cell(outcomes)),
    )
