"""Files of vectors: contextual ones of a file or a corpus, and static ones."""
