"""ONNX: export the whole network as one graph, for onnxruntime and other runtimes.

In: a model. Out: a file whose graph takes a `Batch` (words (U, C), their positions (B, T), lengths
(B,); all sizes dynamic) and returns all layers (L+1, B, T-2, D), sentence markers removed, zero
where padded.
Shapes: U words, C characters, B sentences, T places, R directions, H cells, P projection.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.nn import ModuleList

from elmo.adapters.onnx_graph import Graph
from elmo.api import Elmo
from elmo.errors import needs_extra
from elmo.files.atomic import atomic_write
from elmo.network.bilm import BiLM
from elmo.network.char_cnn import CharCNN, Highway
from elmo.network.lstm import LstmLayer
from elmo.settings import to_mapping
from elmo.text.inputs import check_tokens

with needs_extra("onnx"):
    import onnx
    from onnx import TensorProto, helper

OPSET, IR_VERSION = 18, 10  # old enough for current runtimes, new enough for all operators
INPUTS = {"words": ["U", "C"], "places": ["B", "T"], "lengths": ["B"]}
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh"}


def export_onnx(elmo: Elmo, path: str | Path) -> None:
    """Write a model as an ONNX file; its settings are in the file's metadata."""
    elmo.model.refuse_alignment("ONNX export")
    graph = Graph()
    layers = _layers(graph, elmo.bilm)
    shape = [elmo.n_layers, "B", "tokens", elmo.output_dim]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "elmo",
            [helper.make_tensor_value_info(k, TensorProto.INT64, v) for k, v in INPUTS.items()],
            [helper.make_tensor_value_info(layers, TensorProto.FLOAT, shape)],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="elmo-torch",
    )
    helper.set_model_props(model, {"bilm": json.dumps(to_mapping(elmo.bilm.config))})
    onnx.checker.check_model(model)
    with atomic_write(Path(path)) as temporary:
        onnx.save(model, temporary)


def encode(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> dict[str, NDArray[np.int64]]:
    """Encode token lists as the inputs of the graph."""
    for tokens in sentences:
        check_tokens(tokens)
    batch = elmo.bilm.word_encoder.batch(sentences)
    arrays = (batch.char_ids, batch.word_index, batch.lengths)
    return {name: array.numpy() for name, array in zip(INPUTS, arrays, strict=True)}


def _layers(graph: Graph, bilm: BiLM) -> str:
    """All layers, (L+1, B, T-2, D)."""
    vectors = _token_vectors(graph, bilm)  # (U, P)
    places = graph.add("Transpose", "places", perm=[1, 0])  # (T, B)
    is_read = _is_inside(graph, places, axis=0, n_markers=0)  # (T, B, 1)
    halves = []
    for direction, stack in zip(bilm.config.directions, bilm.stacks.values(), strict=True):
        tokens = graph.add("Gather", vectors, places, axis=0)  # (T, B, P)
        halves.append([tokens])
        assert isinstance(stack, ModuleList)
        for depth, layer in enumerate(stack):
            assert isinstance(layer, LstmLayer)
            # The input product of the first layer is computed once for each distinct word.
            rows = vectors if depth == 0 else halves[-1][-1]
            gates = graph.linear(rows, layer.input_weight, layer.gate_bias)
            if depth == 0:
                gates = graph.add("Gather", gates, places, axis=0)  # (T, B, 4H)
            outputs = _scan(graph, layer, gates, is_read, is_backward=direction == "backward")
            if depth > 0 and bilm.config.lstm.has_skip_connections:
                outputs = graph.add("Add", outputs, rows)
            halves[-1].append(outputs)  # (T, B, P)
    joined = [
        graph.add("Unsqueeze", graph.add("Concat", *layer, axis=-1), graph.constant([0]))
        for layer in zip(*halves, strict=True)
    ]
    layers = graph.add("Concat", *joined, axis=0)  # (L+1, T, B, D)
    layers = graph.add("Transpose", layers, perm=[0, 2, 1, 3])  # (L+1, B, T, D)
    kept = graph.slice(layers, 2, 1, -1)
    is_token = _is_inside(graph, kept, axis=2, n_markers=2)  # (T-2, B, 1)
    is_token = graph.add("Transpose", is_token, perm=[1, 0, 2])
    return graph.add("Mul", kept, graph.add("Cast", is_token, to=TensorProto.FLOAT))


def _is_inside(graph: Graph, x: str, axis: int, n_markers: int) -> str:
    """Whether a position along an axis of x is before its sentence's end, (places, B, 1)."""
    n_places = graph.add("Gather", graph.add("Shape", x), graph.constant(axis))
    steps = graph.add("Range", graph.constant(0), n_places, graph.constant(1))
    lengths = graph.add("Sub", "lengths", graph.constant([n_markers]))
    is_inside = graph.add("Less", graph.add("Unsqueeze", steps, graph.constant([1])), lengths)
    return graph.add("Unsqueeze", is_inside, graph.constant([2]))


def _scan(graph: Graph, layer: LstmLayer, gates: str, is_read: str, *, is_backward: bool) -> str:
    """The LSTM recurrence over input products (T, B, 4H) -> (T, B, P).

    Padding does not change the state, so the backward direction, too, starts a sentence from zeros.
    """
    body = graph.inside(f"scan_{len(graph.nodes)}")
    hidden, cell, step, keeps = "hidden", "cell", "gates", "is_read"
    total = body.add("Add", step, body.linear(hidden, layer.recurrent_weight))
    entering, candidate, forgetting, leaving = body.add_many(
        4, "Split", total, axis=-1, num_outputs=4
    )
    kept = body.add("Mul", body.add("Sigmoid", forgetting), cell)
    new = body.add("Mul", body.add("Sigmoid", entering), body.add("Tanh", candidate))
    next_cell = body.clip(body.add("Add", kept, new), layer.cell_clip)
    shown = body.add("Mul", body.add("Sigmoid", leaving), body.add("Tanh", next_cell))
    output = body.clip(body.linear(shown, layer.projection_weight), layer.projection_clip)
    next_hidden = body.add("Where", keeps, output, hidden)
    next_cell = body.add("Where", keeps, next_cell, cell)
    shape = {hidden: layer.projection_dim, cell: layer.dim, step: 4 * layer.dim}
    inputs = [_info(name, TensorProto.FLOAT, width) for name, width in shape.items()]
    inputs.append(_info(keeps, TensorProto.BOOL, 1))
    outputs = [
        _info(next_hidden, TensorProto.FLOAT, layer.projection_dim),
        _info(next_cell, TensorProto.FLOAT, layer.dim),
        _info(output, TensorProto.FLOAT, layer.projection_dim),
    ]
    starts = [graph.zeros("lengths", 0, width) for width in (layer.projection_dim, layer.dim)]
    return graph.add_many(
        3,
        "Scan",
        *starts,
        gates,
        is_read,
        body=helper.make_graph(body.nodes, "step", inputs, outputs),
        num_scan_inputs=2,
        scan_input_directions=[int(is_backward)] * 2,
        scan_output_directions=[int(is_backward)],
    )[2]


def _info(name: str, kind: int, width: int) -> Any:  # noqa: ANN401 - onnx's own
    return helper.make_tensor_value_info(name, kind, ["B", width])


def _token_vectors(graph: Graph, bilm: BiLM) -> str:
    """Token vectors of the words, (U, P)."""
    words, parts = "words", []
    if bilm.word_table is not None:
        numbers = graph.add("Gather", words, graph.constant(0), axis=1)  # (U,)
        parts.append(graph.add("Gather", graph.constant(bilm.word_table.weight), numbers))
        words = graph.slice(words, 1, 1, np.iinfo(np.int64).max)
    if bilm.char_cnn is not None:
        parts.append(_char_cnn(graph, bilm.char_cnn, words))
    vectors = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=-1)
    projection = bilm.token_projection
    return vectors if projection is None else graph.linear(vectors, *projection.parameters())


def _char_cnn(graph: Graph, char_cnn: CharCNN, words: str) -> str:
    table = graph.constant(char_cnn.char_vectors.weight)
    characters = graph.add("Transpose", graph.add("Gather", table, words), perm=[0, 2, 1])
    last = graph.constant([-1])
    highest = []
    for convolution in char_cnn.convolutions:
        constants = [graph.constant(parameter) for parameter in convolution.parameters()]
        windows = graph.add("Conv", characters, *constants)
        highest.append(graph.add("ReduceMax", windows, last, keepdims=0))
    joined = graph.add("Concat", *highest, axis=-1)  # (U, F)
    x = graph.add(ACTIVATIONS[char_cnn.activation], joined)
    for highway in char_cnn.highways:
        assert isinstance(highway, Highway)
        gate = graph.add("Sigmoid", graph.linear(x, *highway.gate.parameters()))
        made = graph.add("Relu", graph.linear(x, *highway.transform.parameters()))
        x = graph.add("Add", x, graph.add("Mul", gate, graph.add("Sub", made, x)))
    projection = char_cnn.projection
    return x if projection is None else graph.linear(x, *projection.parameters())
