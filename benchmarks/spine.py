"""The main job end to end: start-up times, the demo cold and warm, 200 real transcripts."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from assizes.deployments.samples.make import WRITES
from benchmarks.figures import ASSIZES, DATA, Figures, median, seconds
from benchmarks.server import own_homes, prefect_server

CONFIG = """
name = "tau"
[transcripts]
uri = "{uri}"
writes = {writes}
[judge]
judges = ["conversation", "recorded"]
metrics = ["tool_routing", "parameter_extraction", "result_interpretation", "grounding_fidelity",
  "instruction_compliance", "information_gathering", "conversation_management",
  "response_delivery", {{ metric = "task_completion", weight = 0.5 }}]
[runner]
fail_flow = false
"""


def main() -> None:
    """Measure everything in a scratch folder with its own Prefect home."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = own_homes(folder)
        figures.add("demo_cold_s", seconds([ASSIZES, "demo"], folder, env), most=45)
        with prefect_server(folder, env):
            _warm(figures, folder, env)
    figures.close()


def _warm(figures: Figures, folder: Path, env: dict[str, str]) -> None:
    figures.add("demo_warm_s", median(lambda: seconds([ASSIZES, "demo"], folder, env), 3), most=10)
    figures.add("python_pass_s", median(lambda: seconds([sys.executable, "-c", "pass"], folder)))
    figures.add("help_s", median(lambda: seconds([ASSIZES, "--help"], folder, env)), most=0.3)
    store = ["--store", "duckdb:///.assizes/demo/demo.duckdb"]
    figures.add("runs_s", median(lambda: seconds([ASSIZES, "runs", *store], folder, env)), most=1.0)
    trajectories = DATA / "tau_bench_airline" / "gpt-4o-airline.json.gz"
    if not trajectories.exists():
        print(f"no data sets at {DATA}: the 200 transcripts are left out")
        figures.missing("tau_200_offline_s", "task_completion_kappa")
        return
    text = CONFIG.format(uri=trajectories, writes=json.dumps(WRITES))
    (folder / "tau.toml").write_text(text)
    command = [ASSIZES, "run", "-c", "tau.toml"]
    gate_failed = 1
    figures.add("tau_200_offline_s", seconds(command, folder, env, code=gate_failed), most=20)
    figures.add("tau_200_again_s", seconds(command, folder, env, code=gate_failed))
    figures.add("task_completion_kappa", _kappa(folder / "assizes.duckdb"), least=0.95)


def _kappa(store: Path) -> float:
    """Cohen's kappa of the offline task_completion with the true reward, from the rows."""
    import duckdb
    from sklearn.metrics import cohen_kappa_score

    query = """
        select j.passed, t.passed from scores j join scores t using (run_id, case_id, repetition)
        where j.metric = 'task_completion' and j.part = '' and t.metric = 'recorded_reward' and t.part = ''
    """
    with duckdb.connect(str(store), read_only=True) as connection:
        pairs = connection.execute(query).fetchall()
    judged, true = zip(*pairs, strict=True)
    return float(cohen_kappa_score(judged, true))


if __name__ == "__main__":
    main()
