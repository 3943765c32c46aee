"""The command line: `main.py`, options shared by several verbs, and one file per verb."""
