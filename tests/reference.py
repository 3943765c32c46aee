"""The whole biLM in slow, plain NumPy, written from the official files' conventions alone.

It shares no code with the package: words and weights in their official layout go in, one sentence
at a time, one token at a time, in float64; all layers and the states come out.
"""

import numpy as np

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD = 256, 257, 258, 259, 260
MARKERS = {"begin": BEGIN_SENTENCE, "end": END_SENTENCE}


def word_characters(word, max_characters):
    """Rows of the file's character table for a word: markers around its bytes, then padding."""
    spelling = list(word.encode("utf-8", "surrogatepass"))[: max_characters - 2]
    return _padded(spelling, max_characters)


def marker_characters(which, max_characters):
    return _padded([MARKERS[which]], max_characters)


def token_vector(weights, options, characters):
    """The vector of one word from its characters."""
    cnn = options["char_cnn"]
    table = weights["char_embed"].astype(np.float64)
    x = np.concatenate(
        [
            _highest_window(
                table[characters],
                weights[f"CNN/W_cnn_{i}"][0].astype(np.float64),
                weights[f"CNN/b_cnn_{i}"],
                cnn["activation"],
            )
            for i in range(len(cnn["filters"]))
        ]
    )
    for k in range(cnn["n_highway"]):
        high = f"CNN_high_{k}/"
        gate = _sigmoid(x @ weights[high + "W_carry"] + weights[high + "b_carry"])
        changed = np.maximum(x @ weights[high + "W_transform"] + weights[high + "b_transform"], 0)
        x = gate * changed + (1 - gate) * x
    if len(x) != options["lstm"]["projection_dim"]:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x


def lstm_step(x, hidden, cell, weights, clips):
    """One step of one projected cell; weights are (W_0, B, W_P_0) of the file."""
    matrix, bias, projection = weights
    cell_clip, projection_clip = clips
    entering, candidate, forgetting, leaving = np.split(
        np.concatenate([x, hidden]) @ matrix + bias, 4
    )
    cell = _sigmoid(forgetting + 1) * cell + _sigmoid(entering) * np.tanh(candidate)
    cell = _clip(cell, cell_clip)
    hidden = _clip((_sigmoid(leaving) * np.tanh(cell)) @ projection, projection_clip)
    return hidden, cell


def run_direction(vectors, weights, options, r, state=None):
    """All layers of one direction over vectors in its reading order: [layer][token], and states."""
    lstm = options["lstm"]
    clips = (lstm.get("cell_clip"), lstm.get("proj_clip"))
    layers, states = [], []
    inputs = list(vectors)
    for depth in range(lstm["n_layers"]):
        name = f"RNN_{r}/RNN/MultiRNNCell/Cell{depth}/LSTMCell/"
        cell_weights = [weights[name + part].astype(np.float64) for part in ("W_0", "B", "W_P_0")]
        hidden = np.zeros(lstm["projection_dim"])
        cell = np.zeros(lstm["dim"])
        if state is not None:
            hidden, cell = state[depth]
        outputs = []
        for x in inputs:
            hidden, cell = lstm_step(x, hidden, cell, cell_weights, clips)
            has_skip = lstm["use_skip_connections"] and depth > 0
            outputs.append(hidden + x if has_skip else hidden)
        layers.append(outputs)
        states.append((hidden, cell))
        inputs = outputs
    return layers, states


def sentence_layers(weights, options, tokens, states=None):
    """All layers of a sentence (L+1, T+2, D), markers included, and the states after it."""
    max_characters = options["char_cnn"]["max_characters_per_token"]
    rows = [
        marker_characters("begin", max_characters),
        *(word_characters(token, max_characters) for token in tokens),
        marker_characters("end", max_characters),
    ]
    vectors = [token_vector(weights, options, row) for row in rows]
    halves, after = [], []
    for r in range(2 if options.get("bidirectional", True) else 1):
        order = slice(None, None, -1) if r == 1 else slice(None)
        before = None if states is None else states[r]
        layers, state = run_direction(vectors[order], weights, options, r, before)
        halves.append(np.array([vectors, *(layer[order] for layer in layers)]))
        after.append(state)
    return np.concatenate(halves, axis=-1), after


def _padded(inside, max_characters):
    row = [BEGIN_WORD, *inside, END_WORD]
    return row + [PAD] * (max_characters - len(row))


def _highest_window(characters, kernel, bias, activation):
    """The maximum over all windows of the product with the kernel (width, dim, n), activated."""
    width = len(kernel)
    scores = [
        np.einsum("wd,wdn->n", characters[start : start + width], kernel) + bias
        for start in range(len(characters) - width + 1)
    ]
    highest = np.max(scores, axis=0)
    return np.maximum(highest, 0) if activation == "relu" else np.tanh(highest)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _clip(x, limit):
    return x if not limit else np.clip(x, -limit, limit)
