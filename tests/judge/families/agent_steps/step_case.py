"""A case for every agent-step judge."""

from __future__ import annotations

from tests.builders import agent, call, result, user
from tests.judge.families.agent_steps.step_cases import expecting

EXPECTED = expecting(
    sql="SELECT count(*) FROM orders",
    search_results=["Lamp", "Desk"],
    has_chart=True,
    response_quality="Tells the number of orders",
    trajectory=[[{"name": "run_sql"}]],
)
TURNS = (
    user("How many orders? Find a lamp and draw a chart."),
    agent(
        calls=[
            call("run_sql", "1", sql="SELECT count(*) FROM orders"),
            call("product_search", "2", query="lamp"),
            call("create_chart", "3", chart_type="bar"),
        ]
    ),
    result("[[3]]", call_id="1"),
    result('["Lamp"]', call_id="2"),
    result("drawn", call_id="3"),
    agent("There are 3 orders."),
)
