"""Commands that operate an installation: deploy, serve, doctor, stop, upkeep of stores."""
