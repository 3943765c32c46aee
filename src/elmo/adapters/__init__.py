"""Where people already work: one file for each library, each with its own extra."""
