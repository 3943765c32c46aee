"""Sequence tagging: named entities, parts of speech, chunks."""
