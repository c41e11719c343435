"""The settings of a run, one module for each group of tables of the configuration file."""
