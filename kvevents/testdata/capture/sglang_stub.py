"""Stand-ins for compiled kernels that the imports of SGLang ask for.

The radix cache, its events and the publisher are plain Python and call none of
them; the stand-ins only let the import finish on a machine without a GPU.
"""

import importlib.abc
import importlib.machinery
import sys
from unittest.mock import MagicMock

NAMES = {"sgl_kernel", "vllm", "flashinfer", "deep_gemm", "torchao"}


class Stub(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        m = MagicMock(name=spec.name)
        m.__path__ = []
        m.__spec__ = spec
        m.__version__ = "99.0"
        return m

    def exec_module(self, module):
        pass


sys.meta_path.append(Stub())
