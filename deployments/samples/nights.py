"""Three nights of the bundled conversations: two faults come on the second, one goes on the third."""

from __future__ import annotations

from typing import Any, Final

from assizes.deployments.samples import sample_cases
from assizes.judge.case import Case, Transcript

EVERY: Final = 3
"""One case in so many shows a fault; another one shows the other fault."""

_MADE_UP: Final = "QX4821"  # a value that nobody mentioned


def three_nights() -> list[list[Case]]:
    """The cases of three nights: as they are, with both faults, and with one of them mended."""
    return [
        _night(1, makes_up=False, breaks_off=False),
        _night(2, makes_up=True, breaks_off=True),
        _night(3, makes_up=True, breaks_off=False),
    ]


def returned_fault() -> list[Case]:
    """The cases of a later night, on which the fault that was mended has come back."""
    return _night(4, makes_up=False, breaks_off=True)


def _night(number: int, *, makes_up: bool, breaks_off: bool) -> list[Case]:
    """The bundled cases as agent version `n<number>`.

    `makes_up`: the agent looks things up with arguments that nobody mentioned. `breaks_off`: the conversation ends
    before the last word of the agent. What the agent changes for the customer stays as it is.
    """
    cases = []
    for place, case in enumerate(sample_cases()):
        transcript = case.transcript
        if makes_up and place % EVERY == 1:
            transcript = _with_made_up_arguments(transcript, case.write_names())
        if breaks_off and place % EVERY == 2:  # the third of three
            transcript = _broken_off(transcript)
        update: dict[str, Any] = {"transcript": transcript, "agent_version": f"n{number}"}
        if transcript is not case.transcript:
            update["labels"] = {}  # labels of people were about the conversation as it was
        cases.append(case.model_copy(update=update))
    return cases


def _with_made_up_arguments(transcript: Transcript, writes: frozenset[str]) -> Transcript:
    turns = []
    for turn in transcript.turns:
        calls = tuple(
            call
            if call.name in writes
            else call.model_copy(update={"arguments": dict.fromkeys(call.arguments, _MADE_UP)})
            for call in turn.tool_calls
        )
        turns.append(turn.model_copy(update={"tool_calls": calls}))
    return transcript.model_copy(update={"turns": tuple(turns)})


def _broken_off(transcript: Transcript) -> Transcript:
    turns = transcript.turns[: _last_text(transcript)]
    return transcript.model_copy(update={"turns": turns, "finished": False})


def _last_text(transcript: Transcript) -> int:
    """The index of the last text of the agent."""
    turns = enumerate(transcript.turns)
    return max(index for index, turn in turns if turn.role == "assistant" and turn.text)
