"""A log of inspect_ai in which an agent hands over to another, with the events that say who spoke."""

# Annotations are not postponed here: inspect_ai reads those of an agent.
import tempfile

from inspect_ai import Task
from inspect_ai import eval as run
from inspect_ai.agent import AgentState, agent, as_solver, handoff
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, execute_tools, get_model

from tests.judge.formats.fixture_texts import FOLDER

KEPT = ("span_begin", "span_end", "model")
"""The events that stay in the file; those of models lose what they were sent."""


@agent(description="Finds orders.")
def researcher():
    async def execute(state: AgentState) -> AgentState:
        state.output = await get_model().generate(state.messages)
        state.messages.append(state.output.message)
        return state

    return execute


@agent
def desk():
    async def execute(state: AgentState) -> AgentState:
        tools = [handoff(researcher())]
        while True:
            state.output = await get_model().generate(state.messages, tools=tools)
            state.messages.append(state.output.message)
            if not state.output.message.tool_calls:
                return state
            state.messages.extend((await execute_tools(state.messages, tools)).messages)

    return execute


def inspect_ai_agents() -> None:
    """Write the log."""
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "transfer_to_researcher", {}),
        ModelOutput.from_content("mockllm/model", "Order 77 left on Monday."),
        ModelOutput.from_content("mockllm/model", "It left on Monday."),
    ]
    for out in outputs:  # else the library fetches a tokenizer to count for itself
        out.usage = ModelUsage(input_tokens=20, output_tokens=8, total_tokens=28)
    task = Task(
        name="orders",
        dataset=[Sample(id="s1", input="Where is order 77?")],
        solver=as_solver(desk()),
    )
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=outputs)
        (log,) = run(task, model=model, log_dir=folder, display="none")
        for sample in log.samples or []:
            sample.events = [event for event in sample.events if event.event in KEPT]
            for event in sample.events:
                if event.event == "model":
                    event.input, event.tools, event.call = [], [], None
        write_eval_log(log, str(FOLDER / "inspect_ai_agents.json"))
