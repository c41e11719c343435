"""The history of the runs of a name: control charts, incidents, and anchors that test the judge."""
