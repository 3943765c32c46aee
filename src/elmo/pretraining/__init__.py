"""Pre-train and fine-tune a biLM."""
