"""Commands that judge: one run, reruns, triggered runs, the demo, the plan."""
