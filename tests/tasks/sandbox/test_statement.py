"""Which statements order their result."""

import pytest

from assizes.tasks.sandbox.sqlite import first_word
from assizes.tasks.sandbox.worker import has_order_by


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t order\n  by a desc limit 1;", True),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY 1", True),
        ("SELECT f(a) FROM (SELECT a FROM t) x ORDER BY (a)", True),
        ("SELECT a FROM t -- as said (\nORDER BY a", True),
        ("SELECT ')' FROM t ORDER BY a", True),
        ("SELECT a FROM t", False),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("WITH x AS (SELECT a FROM t ORDER BY a) SELECT * FROM x", False),
        ("SELECT 'order by' FROM t", False),
        ("SELECT 'it''s an order by' FROM t", False),
        ('SELECT "order by" FROM t', False),
        ("SELECT `order by`, [order by] FROM t", False),
        ("SELECT a FROM t -- ORDER BY a", False),
        ("SELECT a /* ORDER BY a */ FROM t", False),
        ("SELECT border, bypass FROM t", False),
        ("SELECT reorder by_name FROM t", False),
        ("", False),
    ],
)
def test_a_statement_orders_where_order_by_stands_outside_parentheses(sql, ordered):
    assert has_order_by(sql) is ordered


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        (" SELECT 1", "select"),
        ("-- x\n/* y */ with a as (select 1) select 2", "with"),
        ("/* never closed", ""),
        ("-- never ended", ""),
        ("(select 1)", ""),
        ("VALUES(1)", "values"),
        ("", ""),
    ],
)
def test_the_first_word_stands_behind_blanks_and_comments(sql, word):
    assert first_word(sql) == word
