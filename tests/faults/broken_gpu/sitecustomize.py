"""On a study's PYTHONPATH, before the hook of the pretend GPU, this breaks a GPU: each use of it is an ECC error.

BROKEN_GPU is its number. A process that sees only this GPU, as Ray's do, has none that works.
"""

import importlib.util
import os
import sys

from tests.after_import import after_import

HOOK = os.path.join(os.path.dirname(__file__), "../../pretend_gpu/hook/sitecustomize.py")


def run_hook() -> None:
    """Do what the hook does, since Python imports only one module of this name."""
    spec = importlib.util.spec_from_file_location("pretend_gpu_hook", HOOK)
    module = sys.modules["pretend_gpu_hook"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def break_gpu(module) -> None:
    make = module.DeviceTensor.__new__

    def make_or_fail(cls, host):
        if os.environ.get("CUDA_VISIBLE_DEVICES") == os.environ.get("BROKEN_GPU"):
            raise module.torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered")
        return make(cls, host)

    module.DeviceTensor.__new__ = staticmethod(make_or_fail)


run_hook()
if os.environ.get("BROKEN_GPU"):
    after_import("tests.pretend_gpu.device", break_gpu)
