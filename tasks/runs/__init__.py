"""Questions about stored runs: baselines, history, anchors, calibrations, labels, reruns."""
