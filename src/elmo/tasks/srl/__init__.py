"""Semantic role labeling."""
