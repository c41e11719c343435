"""Print the ids of the checklist that no test carries; exit 1 when there are any."""

from __future__ import annotations

import sys

from tests.checklist import carried_ids, listed_ids


def main() -> int:
    """The missing ids on stdout, a count of all on stderr."""
    listed, carried = listed_ids(), carried_ids()
    missing = [one for one in listed if one not in carried]
    sys.stdout.writelines(f"{one}\n" for one in missing)
    sys.stderr.write(f"{len(listed) - len(missing)} of {len(listed)} rows are asserted by a test\n")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
