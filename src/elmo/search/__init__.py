"""Find words in context: indexes, neighbors, WordNet."""
