"""Layers that task models share."""
