"""The server: a web page to explore a model, and a JSON API; one thread runs the model."""
