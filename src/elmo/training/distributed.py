"""The processes of a training run: a single one, or several started by torchrun.

In: torchrun's environment variables, if set. Out: `Processes`: the rank of this process, its rows
of a batch, and collective operations, which all processes must call together.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn

# The first process evaluates while the others wait.
TIMEOUT = timedelta(hours=3)
# DDP must not hold the last reference to a process group: its destructor would wait, holding the
# GIL, for threads of the group that may need the GIL.
_GROUPS: list[distributed.ProcessGroup | None] = []


@dataclass(frozen=True)
class Processes:
    """This process and its rank among all processes of the run."""

    rank: int
    n_processes: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which alone evaluates and writes files."""
        return self.rank == 0

    def own_rows(self, n_rows: int) -> range:
        """The rows of a batch that this process computes."""
        first, last = (rank * n_rows // self.n_processes for rank in (self.rank, self.rank + 1))
        return range(first, last)

    def broadcast(self, number: float) -> float:
        """Return the first process's number in all processes."""
        if self.n_processes == 1:
            return number
        shared = torch.tensor(number, dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        if self.n_processes > 1:
            distributed.all_reduce(tensor)
        return tensor

    def all_gather(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate the tensors of all processes in rank order; their shapes are equal."""
        if self.n_processes == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.n_processes)]
        distributed.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim)

    def barrier(self) -> None:
        if self.n_processes > 1:
            distributed.barrier()

    @contextmanager
    def first_before_others(self) -> Iterator[None]:
        """Run a block in the first process, then in all others, which can use what it cached."""
        if not self.is_first:
            self.barrier()
        yield
        if self.is_first:
            self.barrier()

    def shutdown(self) -> None:
        """End the process group."""
        if self.n_processes > 1:
            distributed.destroy_process_group()

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients of parameters that are not wrapped in DDP.

        A missing gradient counts as zero; if it is missing in all processes, it stays None.
        """
        if self.n_processes == 1:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        kinds = [_kind_of_gradient(parameter) for parameter in trained]
        n_of_kind = self.sum(torch.tensor(kinds, device=self.device).reshape(-1, 2))
        for parameter, (n_dense, n_sparse) in zip(trained, n_of_kind.tolist(), strict=True):
            gradient = parameter.grad
            if n_sparse:
                gradient = _no_rows(parameter) if gradient is None else gradient.coalesce()
                parameter.grad = self._average_rows(gradient)
            elif n_dense:
                gradient = torch.zeros_like(parameter) if gradient is None else gradient
                parameter.grad = self.sum(gradient).div_(self.n_processes)

    def _average_rows(self, gradient: Tensor) -> Tensor:
        """Average sparse gradients; the result has all rows that occur in any process."""
        ids = gradient.indices()[0]
        touched = torch.zeros(len(gradient), dtype=torch.uint8, device=ids.device)
        touched[ids] = 1
        distributed.all_reduce(touched, distributed.ReduceOp.MAX)
        all_ids = touched.nonzero().squeeze(1)
        values = gradient.values().new_zeros(len(all_ids), *gradient.shape[1:])
        values[torch.searchsorted(all_ids, ids)] = gradient.values() / self.n_processes
        self.sum(values)
        return torch.sparse_coo_tensor(
            all_ids[None], values, gradient.shape, is_coalesced=True, check_invariants=False
        )


def _kind_of_gradient(parameter: nn.Parameter) -> tuple[float, float]:
    """One for a dense gradient, one for a sparse gradient; both zero without a gradient."""
    if parameter.grad is None:
        return 0.0, 0.0
    return (0.0, 1.0) if parameter.grad.is_sparse else (1.0, 0.0)


def _no_rows(parameter: nn.Parameter) -> Tensor:
    """A sparse gradient of no rows."""
    ids = torch.empty(1, 0, dtype=torch.int64, device=parameter.device)
    values = parameter.new_empty(0, *parameter.shape[1:])
    return torch.sparse_coo_tensor(
        ids, values, parameter.shape, is_coalesced=True, check_invariants=False
    )


def one_process() -> Processes:
    """A run with a single process."""
    return Processes(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def join_processes() -> Processes:
    """Join the processes that torchrun started; without torchrun, one process."""
    if "RANK" not in os.environ:
        return one_process()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if not distributed.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
        _GROUPS.append(distributed.group.WORLD)
    return Processes(distributed.get_rank(), distributed.get_world_size(), device)
