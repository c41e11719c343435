"""Runs of one name in a row: control charts, incidents, and anchors that show a moved judge."""
