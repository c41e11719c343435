"""What a newcomer does first: an empty environment, the wheel, five lines; how long it takes.

    make bench-newcomer, or: python -m benchmarks.newcomer [PLACE]

`PLACE` is kept: its environment is used again, its notebook can be opened. The model is a server on
this machine that answers each call after 0.3 s. Each script starts in a folder without a cache.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from benchmarks.figures import ROOT, Figures
from tests.deployments.library.logs import COLUMNS, logs, turn_rows
from tests.doubles.fixtures import OPENAI_KEY, running_openai_server

LATENCY_S = 0.3
MODEL = 'model="openai/stub", api_base="{api_base}", metrics=["tool_routing", "task_completion"]'
SCRIPTS = {
    "logs": """\
import assizes, json
cases = [json.loads(line) for line in open("logs.jsonl")]
result = assizes.evaluate(cases, MODEL)
print(result, result.to_polars(), result.case("c1").explain("tool_routing"))
print(result.compare(assizes.evaluate(cases[:20], MODEL)).verdict)
""",
    "csv": """\
import assizes
result = assizes.evaluate("chats.csv", MODEL)
print(result, result.to_polars(), result.case("c1").explain("tool_routing"))
""",
    "frame": """\
import assizes, polars
frame = polars.read_csv("desk.csv")
result = assizes.evaluate(frame, columns=COLUMNS, MODEL)
print(result, result.wide(), result.case("c1").explain("tool_routing"))
""",
}
CELLS = (
    "import assizes, json\ncases = [json.loads(line) for line in open('logs.jsonl')]",
    "result = assizes.evaluate(cases, MODEL)\nresult",
    "result.to_polars()",
    "result.to_pandas()",
    "result.summary",
    "result.case('c1')",
    "result.case('c1').explain('tool_routing')",
    "later = await assizes.aevaluate(cases, judges=['conversation', 'safety'], model='openai/stub',"
    " api_base='{api_base}')\nresult.compare(later)",
    "result.compare(later).verdict",
    "assizes.judges.correctness('2 + 2?', '4', expected_response='4', model='openai/stub',"
    " api_base='{api_base}')",
    "assizes.evaluate(cases, model='gpt-4')",
)


def main() -> None:
    """Build, install, run each script, and run the notebook."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(sys.argv[1] if len(sys.argv) > 1 else scratch).resolve()
        python = _install(place, figures)
        with running_openai_server("--latency", str(LATENCY_S)) as server:
            for name, script in SCRIPTS.items():
                server.reset()
                _run(name, _filled(script, server.api_base), python, place, figures)
                figures.add(f"{name}_calls", server.stats()["requests"])
            _run_notebook([_filled(c, server.api_base) for c in CELLS], python, place, figures)
    figures.close()


def _install(place: Path, figures: Figures) -> Path:
    """The interpreter of an environment that has the wheel and its locked dependencies alone."""
    begun = time.perf_counter()
    dist = place / "dist"
    build = ("uv", "build", "--offline", "--no-build-isolation", "--quiet", "--wheel")
    _call(sys.executable, "-m", *build, "--python", sys.executable, "--out-dir", str(dist), ".")
    figures.add("wheel_s", time.perf_counter() - begun)
    (wheel,) = dist.glob("*.whl")
    python = place / "venv" / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--no-deps")
    begun = time.perf_counter()
    if not python.exists():
        _call(sys.executable, "-m", "venv", str(place / "venv"))
        _call(*pip, "--require-hashes", "-r", "requirements-runtime.lock")
    _call(*pip, "--no-index", "--force-reinstall", str(wheel))
    _call(str(python), "-m", "pip", "check")
    figures.add("install_s", time.perf_counter() - begun)
    return python


def _run(name: str, script: str, python: Path, place: Path, figures: Figures) -> None:
    folder = _folder(place, name)
    (folder / "first.py").write_text(script)
    print(f"\n---- {name}\n{script}----", flush=True)
    begun, used = time.perf_counter(), _cpu_s()
    _call(str(python), "first.py", folder=folder)
    figures.add(f"{name}_s", time.perf_counter() - begun)
    figures.add(f"{name}_cpu_s", _cpu_s() - used)
    figures.add(f"{name}_lines", len(script.splitlines()), most=5)


def _run_notebook(cells: list[str], python: Path, place: Path, figures: Figures) -> None:
    """Run the cells in a kernel of the new environment, and show what they put out."""
    folder = _folder(place, "notebook")
    # What only a notebook needs (ipykernel, pandas) comes from here; the package does not.
    (site,) = (place / "venv").glob("lib/python*/site-packages")
    (site / "notebook.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = f"import assizes; assert assizes.__file__.startswith({str(site)!r}), assizes.__file__"
    made = [nbformat.v4.new_code_cell(cell) for cell in (where, *cells)]
    made[-1].metadata["tags"] = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=made)
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        env={"OPENAI_API_KEY": OPENAI_KEY, "PYTHONPATH": ""},
    )
    begun = time.perf_counter()
    resources = {"metadata": {"path": str(folder)}}
    try:
        NotebookClient(notebook, km=manager, timeout=300, resources=resources).execute()
    finally:
        (site / "notebook.pth").unlink()
        nbformat.write(notebook, folder / "first.ipynb")
    figures.add("notebook_s", time.perf_counter() - begun)
    figures.add("notebook_cells", len(cells))
    for cell in made[1:]:
        print(f"\n---- notebook\n{cell.source}\n----")
        for output in cell.outputs:
            _show(output)


def _show(output: Any) -> None:
    data = output.get("data", {})
    kind = output.output_type
    text = data.get("text/plain") or output.get("text") or output.get("evalue", "")
    html = data.get("text/html", "")
    print(f"[{kind}] {text}" + (f"\n[html, {len(html)} characters] {html[:400]}" if html else ""))


def _folder(place: Path, name: str) -> Path:
    """A new folder with the conversations as logs, as a CSV, and as one with names of its own."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place))
    (folder / "logs.jsonl").write_text("".join(json.dumps(log) + "\n" for log in logs()))
    rows = pl.DataFrame(turn_rows())
    rows.write_csv(folder / "desk.csv")
    usual = {"chat": "conversation_id", "n": "turn", "who": "role", "said": "content"}
    rows.rename(usual).write_csv(folder / "chats.csv")
    return folder


def _cpu_s() -> float:
    """CPU seconds of processes that have ended; on a busy machine they say more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _filled(code: str, api_base: str) -> str:
    code = code.replace("MODEL", MODEL).replace("COLUMNS", repr(COLUMNS))
    return code.replace("{api_base}", api_base)


def _call(*command: str, folder: Path = ROOT) -> None:
    env = {"OPENAI_API_KEY": OPENAI_KEY, "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    if done.stderr and folder != ROOT:
        print(f"[stderr]\n{done.stderr}", end="", flush=True)


if __name__ == "__main__":
    main()
