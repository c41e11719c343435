"""A process that stood still for longer than the deadline of its asks blames no provider for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from assizes.judge.engine.awake_clock import PAUSE_S, AwakeClock
from tests.doubles.fixtures import OPENAI_KEY, running_openai_server
from tests.outward import PYTHONPATH

PROGRAM = """
import asyncio, json, sys
from assizes.deployments.samples import sample_cases
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.model_factory import model_for
from assizes.judge.rubrics.rubric import built_in_rubrics

async def main():
    limits = LimitsConfig(max_in_flight=4, timeout_s=2, deadline_s=3, max_attempts=1)
    model = model_for(JudgeConfig(model="openai/stub", api_base=sys.argv[1]), limits)
    engine = Engine(model, limits)
    judge = ConversationJudge(built_in_rubrics()[:1])
    heard = await asyncio.gather(*(engine.hear(judge, case) for case in sample_cases()[:8]))
    print(json.dumps([record.error for one in heard for record in one.asks]))

asyncio.run(main())
"""


def stop_for(process: subprocess.Popen[str], seconds: float) -> None:
    """Stop a process as a suspended machine or a debugger does, then let it go on."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


@pytest.mark.full
@pytest.mark.promised
def test_asks_in_flight_during_a_pause_are_answered_or_asked_again():
    env = os.environ | {"PYTHONPATH": PYTHONPATH, "OPENAI_API_KEY": OPENAI_KEY}
    with running_openai_server("--latency", "1") as server:
        command = [sys.executable, "-c", PROGRAM, server.api_base]
        with subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while server.stats()["requests"] < 4:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.02)
            stop_for(process, PAUSE_S + 2)
            out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1]) == [None] * 8, err


async def test_a_pause_puts_timeouts_off_by_its_length():
    clock, loop = AwakeClock(), asyncio.get_running_loop()
    start = loop.time()

    def stand_still() -> None:  # no callback runs meanwhile
        time.sleep(PAUSE_S + 1)

    async def wait() -> None:
        async with clock.timeout_at(clock.time() + 2):
            loop.call_later(0.1, stand_still)
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await wait()

    assert clock.pauses == 1
    assert loop.time() - start >= PAUSE_S + 2


async def test_a_timeout_without_a_pause_is_that_of_the_event_loop():
    clock, loop = AwakeClock(), asyncio.get_running_loop()
    start = loop.time()

    with pytest.raises(TimeoutError):
        async with clock.timeout_at(clock.time() + 1.2):
            await asyncio.sleep(60)

    assert clock.pauses == 0
    assert loop.time() - start < PAUSE_S
