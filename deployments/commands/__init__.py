"""What each command does; `assizes.deployments.cli` only reads arguments."""
