"""The command line: `main`, and a file a verb. Nothing imports it."""
