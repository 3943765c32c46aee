"""The processes of a training run: one alone, or several started by torchrun.

In: torchrun's environment, if there is one. Out: who this process is, which rows are its own, and
the few things all of them must agree on.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn

from elmo.errors import ConfigError

# One process measures held-out text while the others wait.
LONGEST_WAIT = timedelta(hours=3)


@dataclass(frozen=True)
class Processes:
    """This process among all of the run."""

    rank: int
    n_processes: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """The first process alone writes files."""
        return self.rank == 0

    def own_rows(self, batch_size: int) -> range:
        """The rows of a step that this process runs."""
        if batch_size % self.n_processes:
            raise ConfigError(
                f"stream.batch_size is {batch_size}, expected a multiple of the {self.n_processes} "
                "processes; set another number of rows or processes"
            )
        n_own = batch_size // self.n_processes
        return range(self.rank * n_own, (self.rank + 1) * n_own)

    def agree(self, number: float) -> float:
        """The first process's number, in all of them; they must ask together."""
        if self.n_processes == 1:
            return number
        shared = torch.tensor(number, dtype=torch.float64, device=self.device)
        distributed.broadcast(shared, src=0)
        return float(shared)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, the same in each."""
        if self.n_processes > 1:
            distributed.all_reduce(tensor)
        return tensor

    def join_rows(self, tensor: Tensor, dim: int) -> Tensor:
        """The rows of all processes, in order, in each of them."""
        if self.n_processes == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.n_processes)]
        distributed.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim)

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.n_processes > 1:
            distributed.barrier()

    def leave(self) -> None:
        """The end of working together."""
        if self.n_processes > 1:
            distributed.destroy_process_group()

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average the gradients of parameters that torch's DDP does not hold."""
        for parameter in parameters:
            if self.n_processes == 1 or parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = self._average_rows(parameter.grad.coalesce())
            else:
                self.sum(parameter.grad).div_(self.n_processes)

    def _average_rows(self, gradient: Tensor) -> Tensor:
        """Sparse gradients: first agree on the rows that any process touched, then sum these."""
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


def join_processes() -> Processes:
    """Join the processes torchrun started, or be alone."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if "RANK" not in os.environ:
        return Processes(0, 1, device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if not distributed.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=LONGEST_WAIT)
    return Processes(distributed.get_rank(), distributed.get_world_size(), device)
