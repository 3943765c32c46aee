"""Probes: what the layers of a model know, measured as the papers did, with the model frozen."""
