"""Tools that search or make charts, known by their names where arguments and answers do not say."""

from __future__ import annotations

import json

import pytest

from assizes.judge.evidence.step_kinds import (
    chart_steps,
    chart_type,
    found_items,
    search_steps,
)
from assizes.judge.evidence.steps import AgentStep

PLOTLY = json.dumps({"request": "bar chart", "results": "<div class='plotly-graph-div'></div>"})
SIMILAR = json.dumps({"product_id": 7, "results": [{"product_id": 9, "name": "Lamp B"}]})
BAR_CHART = {"data": [{"month": "Jan", "n": 3}], "request": "bar chart of orders by month"}


def made(name, arguments=None, result=None, raw=None, within=()):
    return AgentStep(0, name, arguments or {}, raw=raw, result=result, within=within)


@pytest.mark.row("002-33", "002-34")
@pytest.mark.parametrize(
    "step",
    [
        made("similar_products", {"product_id": 7, "top_k": 5}, SIMILAR),
        made("product_search", {"query": "lamp"}, SIMILAR),
        made("product_search", {"category": "lamps"}, "Lamp A\nLamp B"),
        made("product_search", {"max_price": 20}, '["Lamp A"]'),
        made("product_search", {"max_price": 20}),
        made("product_search", raw="lamp", result="Lamp A"),
        made("searchProducts", {"category": "lamps"}, "Lamp A"),
        made("mcp__shop__search-products", {"category": "lamps"}, "Lamp A"),
        made("kb_lookup", {"topic": "refunds"}, "Refunds take five days."),
        made("retrieve_documents", {"topic": "refunds"}, "Refunds take five days."),
        made("look_up_articles", {"topic": "refunds"}, "Refunds take five days."),
    ],
    ids=lambda step: f"{step.name}-{step.raw or dict(step.arguments)}",
)
def test_a_tool_named_for_a_search_searches(step):
    assert search_steps([step], ()) == (step,)


@pytest.mark.parametrize(
    "step",
    [
        made("search_count", {"category": "lamps"}, "4"),
        made("is_similar", {"one": "lamp", "other": "light"}, "true"),
        made("save_search", {"title": "lamps"}, "saved"),
        made("create_search_index", {"title": "lamps"}, "done"),
        made("transfer_to_search_agent", {"reason": "wants a lamp"}, "transferred"),
        made("mcp__search__open_page", {"title": "Lamps"}, "A page about lamps."),
        made("research", {"topic": "lamps"}, "A report."),
        made("lookup_order", {"order_id": "#W1"}, "shipped"),
        made("lookup_user", {"email": "ann@example.org"}, '{"name": "Ann"}'),
        made("retrieve_balance", {"account": "A17"}, "shipped"),
        made("retrieve_all", {}, "Lamp A"),
        made("search_visualization", {"chart_type": "bar"}, "done"),
        made("search_orders", {"sql": "SELECT * FROM orders"}, "[]"),
    ],
    ids=lambda step: f"{step.name}-{dict(step.arguments)}",
)
def test_a_name_alone_makes_no_search_of_what_is_something_else(step):
    assert search_steps([step], ()) == ()


def test_handing_over_to_a_sub_agent_that_is_named_for_searches_is_none():
    handed = made("search_agent", {"task": "find a lamp"}, "found")
    inner = made("product_search", {"category": "lamps"}, "Lamp A", within=("search_agent",))
    assert search_steps([handed, inner], ()) == (inner,)


@pytest.mark.row("002-34")
def test_what_a_search_by_name_found_are_the_items_of_its_list():
    (step,) = search_steps([made("similar_products", {"product_id": 7}, SIMILAR)], ())
    assert found_items(step) == ({"product_id": 9, "name": "Lamp B"},)


@pytest.mark.row("002-39", "002-43")
@pytest.mark.parametrize(
    "step",
    [
        made("create_visualization", BAR_CHART, PLOTLY),
        made("create_visualization", {"query": "sales by month"}, "done"),
        made("create_visualization", {"request": "sales"}),
        made("create_chart", {"title": "Sales"}, "chart created"),
        made("create_chart", raw="bar", result="ok"),
        made("createChart", {"title": "Sales"}, "ok"),
        made("mcp__charts__generate_chart_image", {"title": "Sales"}, "ok"),
        made("create_chart_from_table", {"table": "sales"}, "ok"),
        made("add_chart_to_sheet", {"table": "sales"}, "ok"),
        made("bar_chart", {"table": "sales"}, "ok"),
        made("visualize_sales", {"months": "all"}, "ok"),
        made("data_visualization_tool", {"request": "sales"}, "ok"),
        made("plot_sales", {"months": ["Jan", "Feb"]}, "ok"),
        made("draw_graph", {"values": [1, 2]}, "ok"),
        made("plot", {"expression": "sin(x)"}, "ok"),
    ],
    ids=lambda step: f"{step.name}-{step.raw or dict(step.arguments)}",
)
def test_a_tool_named_for_making_charts_makes_charts_and_does_not_search(step):
    assert chart_steps([step], ()) == (step,)
    assert search_steps([step], ()) == ()


@pytest.mark.parametrize(
    "step",
    [
        made("get_patient_chart", {"patient": "Ann"}, "Blood pressure: 120/80"),
        made("show_chart", {"artist": "Abba"}, '["Waterloo", "Fernando"]'),
        made("create_chart_of_accounts", {"company": "Lamps Ltd"}, "created"),
        made("plot_summary", {"film": "Alien"}, "A crew wakes up."),
        made("get_plot", {"film": "Alien"}, "A crew wakes up."),
        made("query_graph", {"cypher": "MATCH (n) RETURN n"}, "[]"),
        made("create_graph", {"nodes": ["Ann", "Bob"], "edges": [["Ann", "Bob"]]}, "created"),
        made("create_knowledge_graph", {"text": "Ann knows Bob."}, "created"),
        made("graph_api_call", {"path": "/me"}, "Ann"),
        made("create_flowchart_title", {"topic": "refunds"}, "Refunds"),
        made("delete_visualization", {"title": "Sales"}, "deleted"),
        made("transfer_to_visualization_agent", {"reason": "wants a chart"}, "transferred"),
        made("count_generated_charts", {"month": "May"}, "4"),
    ],
    ids=lambda step: f"{step.name}-{dict(step.arguments)}",
)
def test_a_name_alone_makes_no_chart_of_what_is_something_else(step):
    assert chart_steps([step], ()) == ()


@pytest.mark.parametrize("key", ["chartType", "chart-type", "Chart_Type", "plotType", "chart_type"])
def test_a_kind_of_chart_is_known_however_its_key_is_written(key):
    step = made("tool", {key: "bar"}, "ok")
    assert chart_steps([step], ()) == (step,)
    assert chart_type(step) == "bar"


@pytest.mark.row("002-41")
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (made("create_visualization", BAR_CHART, PLOTLY), "bar"),
        (made("create_chart", raw="bar"), "bar"),
        (made("create_chart", {"request": "A Line-Graph of sales"}), "line"),
        (made("create_chart", {"request": "a bar chart", "chart_type": "pie"}), "pie"),
        (made("create_chart", {"request": "bar chart"}, '{"chart_type": "line"}'), "line"),
        (made("create_chart", {"request": "sales of the bar"}), None),
        (made("create_chart", {"request": "a bar chart, or a line chart"}), None),
    ],
)
def test_the_kind_of_a_chart_is_else_the_one_that_the_arguments_name_in_words(step, kind):
    assert chart_type(step) == kind
