"""Commands that set things up and look after them: deploy, serve, doctor, stop, upkeep."""
