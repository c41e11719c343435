"""The judge `run_criteria`: whether criteria hold of a long run and of the state that it left."""
