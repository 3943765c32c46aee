"""From text to sentences, tokens and character ids."""
