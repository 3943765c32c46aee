"""Embed and score text with a trained biLM."""
