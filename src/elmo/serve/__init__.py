"""The server: a page to explore a model with, and a JSON API, over one model in one thread."""
