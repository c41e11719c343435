"""What each command does; `deployments.cli` only reads arguments."""
