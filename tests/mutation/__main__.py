"""Print killed / all per module; exit 1 for a survivor without an explanation, or one too many."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutation import KILLED, Mutant, change, explained, findings, results, scores

ROOT = Path(__file__).resolve().parents[2]
MUTMUT = Path(sys.executable).with_name("mutmut")
TREE = ROOT / "mutants"
"""A copy of the packages and their tests; mutmut follows no links, and `src/assizes` is made of them."""

COPIED = ("src", "tests", "pyproject.toml", "README.md", "docs")


def mutmut(*arguments: str) -> str:
    """What a command of mutmut printed."""
    done = subprocess.run(
        [MUTMUT, *arguments], cwd=TREE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"mutmut {arguments[0]} failed:\n{done.stdout[-4000:]}{done.stderr}")
    return done.stdout


def lay_tree() -> None:
    """Bring the copy up to date; what mutmut left in it from the last run stays."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, TREE / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(ROOT / name, TREE / name)


def survivors() -> list[Mutant]:
    """Those that the last run did not kill."""
    found = results(mutmut("results", "--all", "true"))
    return [one for one in found if one.end != KILLED]


def main() -> int:
    """Mutate, run the tests, hold the survivors against those that are explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", default="2", help="mutants tested at once")
    parser.add_argument(
        "--again", action="store_true", help="only what changed or survived in the last run"
    )
    given = parser.parse_args()
    run = ("run", "--max-children", given.children)
    if not given.again:
        shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(exist_ok=True)
    lay_tree()
    mutmut(*run)
    if given.again and (left := survivors()):
        mutmut(*run, *(one.full_name for one in left))
    return told()


def told() -> int:
    """Scores and findings on stdout; the exit code."""
    mutants = results(mutmut("results", "--all", "true"))
    if not mutants:
        raise SystemExit("there is no mutant: see [tool.mutmut] in pyproject.toml")
    left = [one for one in mutants if one.end != KILLED]
    changes = {one: change(one.module, mutmut("show", one.full_name)) for one in left}
    found = list(findings(changes, explained()))
    sys.stdout.writelines(f"{line}\n" for line in (*scores(mutants), *found))
    sys.stdout.write(f"{len(left)} survivors, {len(found)} findings\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
