"""Build hook: compile the kernels into a platform wheel, or leave it pure without a compiler.

The library has no Python and no torch ABI, so one wheel per platform serves every interpreter.
ELMO_PURE_WHEEL=1 asks for the pure wheel. An editable install compiles at first use instead.
"""

import importlib.util
import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "src/elmo/network/kernels"
INSIDE = "elmo/network/kernels/prebuilt"


class KernelBuildHook(BuildHookInterface):
    """Adds the variants that this machine's compiler can build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before hatchling collects the files."""
        if version == "editable" or os.environ.get("ELMO_PURE_WHEEL"):
            return
        build = self._load_build()
        try:
            libraries = self._compile(build)
        except build.BuildError as problem:
            self.app.display_warning(f"pure wheel without kernels: {problem}")
            return
        if libraries:
            build_data["pure_python"] = False
            tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{tag}"
            build_data["force_include"].update(libraries)

    def _compile(self, build: Any) -> dict[str, str]:
        machine = platform.machine()
        compiler = build.find_compiler()
        folder = Path(self.directory) / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        portable = build.PORTABLE_FLAGS.get(sys.platform, ())
        libraries = {}
        for name, flags in build.VARIANTS.get(machine, {}).items():
            library = folder / f"{name}.so"
            build.compile_library([*compiler, *flags, *portable], library)
            libraries[str(library)] = f"{INSIDE}/{name}.so"
        return libraries

    def _load_build(self) -> Any:
        path = Path(self.root) / KERNELS / "build.py"
        spec = importlib.util.spec_from_file_location("kernels_build", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
