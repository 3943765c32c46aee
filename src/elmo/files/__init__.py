"""Files: atomic writes, locks, compressed text, remote storage. Nothing here imports torch."""
