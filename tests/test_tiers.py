"""`make test-rest` loads only the files that name its mark, and one folder."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent


def test_the_mark_of_the_last_tier_is_only_where_make_test_rest_looks():
    named = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if "mark.full" in path.read_text(encoding="utf-8") and not path.name.startswith("test_")
    }
    assert named == {"tiers.py", "tasks/store/conftest.py"}
