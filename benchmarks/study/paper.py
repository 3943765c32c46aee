"""Numbers that Peters et al. (2018) report (arXiv 1802.05365v2), for comparison."""

# Table 1, test: baseline, with ELMo, and the relative error reduction as printed in the paper.
TABLE_1 = {
    "squad": (81.1, 85.8, 24.9),
    "nli": (88.0, 88.7, 5.8),
    "srl": (81.4, 84.6, 17.2),
    "coref": (67.2, 70.4, 9.8),
    "ner": (90.15, 92.22, 21.0),
    "sentiment": (51.4, 54.7, 6.8),
}
# Table 2, dev; "elmo" is all layers with a small lambda.
TABLE_2 = {
    "squad": {"baseline": 80.8, "top": 84.7, "lambda-1": 85.0, "elmo": 85.2},
    "nli": {"baseline": 88.1, "top": 89.1, "lambda-1": 89.3, "elmo": 89.5},
    "srl": {"baseline": 81.6, "top": 84.1, "lambda-1": 84.6, "elmo": 84.8},
}
# Table 3, dev.
TABLE_3 = {
    "squad": {"input": 85.1, "both": 85.6, "output": 84.8},
    "nli": {"input": 88.9, "both": 89.5, "output": 88.7},
    "srl": {"input": 84.7, "both": 84.3, "output": 80.9},
}
# Perplexity of a task's text, before and after an epoch of fine-tuning.
PERPLEXITIES = {
    "snli": (72.1, 16.8),
    "squad-contexts": (99.1, 43.5),
    "squad-questions": (158.2, 52.0),
    "wnut": (103.2, 46.3),  # theirs is CoNLL-2003
    "sst": (131.5, 78.6),
}
