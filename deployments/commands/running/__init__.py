"""Commands before and during judging: init, import, plan, run, rerun, triggered runs, demo."""
