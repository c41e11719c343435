"""The options of the commands, one module for each group; what a command does is in `commands`."""
