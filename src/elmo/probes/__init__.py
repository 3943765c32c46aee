"""Probes: what the layers of a frozen model encode, measured as in the papers.

Each probe is a module with a function `measure(elmo, ...)`, which returns a `ProbeResult`.
"""
