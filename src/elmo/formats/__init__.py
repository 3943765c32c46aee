"""Foreign formats, a file each; and which of them a path is."""
