"""Build an ONNX graph node by node.

In: operators and names. Out: nodes and constants of a graph; each call returns the name of its
node's output, so that the code reads like the computation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import needs_extra

with needs_extra("onnx"):
    from onnx import helper, numpy_helper


class Graph:
    """A graph under construction."""

    def __init__(self, prefix: str = "", initializers: list[Any] | None = None) -> None:
        """Create an empty graph; a subgraph shares the `initializers` of its parent."""
        self.nodes: list[Any] = []
        self.initializers: list[Any] = [] if initializers is None else initializers
        self._prefix = prefix

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node with one output, and return the output's name."""
        return self.add_many(1, operator, *inputs, **attributes)[0]

    def add_many(self, n_outputs: int, operator: str, *inputs: str, **attributes: Any) -> list[str]:  # noqa: ANN401
        """Add a node with several outputs, and return their names."""
        name = f"{self._prefix}{operator.lower()}_{len(self.nodes)}"
        outputs = [f"{name}_{k}" for k in range(n_outputs)]
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=name, **attributes))
        return outputs

    def inside(self, prefix: str) -> "Graph":
        """A subgraph for the body of one of this graph's nodes."""
        return Graph(f"{self._prefix}{prefix}_", self.initializers)

    def constant(self, values: Tensor | NDArray[Any] | Sequence[int] | int) -> str:
        """Add constant values to the initializers."""
        array = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else values
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """A linear layer (..., in) -> (..., out), with torch's weight (out, in)."""
        product = self.add("MatMul", x, self.constant(weight.detach().T))
        return product if bias is None else self.add("Add", product, self.constant(bias))

    def clip(self, x: str, limit: float | None) -> str:
        """Clip to [-limit, limit], unless the limit is None."""
        if limit is None:
            return x
        bounds = (self.constant(np.array(b, dtype=np.float32)) for b in (-limit, limit))
        return self.add("Clip", x, *bounds)

    def slice(self, x: str, axis: int, start: int, stop: int) -> str:
        """Slice from `start` to `stop` along an axis."""
        return self.add("Slice", x, *(self.constant([number]) for number in (start, stop, axis)))

    def zeros(self, like: str, axis: int, width: int) -> str:
        """Zeros (n, width), n being the size of `like` along an axis."""
        size = self.slice(self.add("Shape", like), 0, axis, axis + 1)
        return self.add("ConstantOfShape", self.add("Concat", size, self.constant([width]), axis=0))
