"""Describe where a number was measured: commit, CPU, threads, versions."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def describe_environment() -> dict[str, Any]:
    """The environment of this process."""
    return {
        "commit": _commit(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
    }


@cache
def _commit() -> str:
    """The commit at the first call, with a plus sign if the code differs from it."""
    here = Path(__file__).parent
    head = subprocess.check_output(("git", "rev-parse", "--short=12", "HEAD"), cwd=here, text=True)
    changed = subprocess.call(("git", "diff", "--quiet", "HEAD", "--", "../src", "."), cwd=here)
    return head.strip() + ("+" if changed else "")


def _cpu() -> str:
    """The CPU's model, and the vector instructions on which speed depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    found = set(fields.get("flags", "").split())
    widest = [name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if name in found]
    return ", ".join([fields.get("model name", platform.machine()), *widest])
