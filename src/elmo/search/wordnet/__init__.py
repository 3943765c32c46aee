"""WordNet: its database as Debian's `wordnet-base` installs it, and its example sentences.

The sentences are shipped with the package; LICENSE in this folder applies to them.
"""
