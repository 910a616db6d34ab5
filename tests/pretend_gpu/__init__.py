"""A pretend GPU: a CPU build of torch gets a device "cuda:0", and the processor computes its numbers.

`cuda.install()` adds it to this process. Then, as on a real GPU:

- An operation on tensors of both devices raises an error, and so do a generator of the other device and `.numpy()`.
  Allowed are single numbers in elementwise operations, and indices.
- What makes the host wait for the device is a wait: `.item()`, `nonzero`, a mask as index, a blocking copy.
  `torch.cuda.set_sync_debug_mode` turns it into a warning or an error. `counting.count` counts waits, copies and
  kernels.
- A copy with `non_blocking` is no wait if the memory is pinned. A later wait raises an error if the memory changed
  meanwhile. A copy to the host has its values only after a wait.
- Operations without a deterministic kernel raise an error where deterministic algorithms are asked for.
- Every process has the GPUs of CUDA_VISIBLE_DEVICES, by default one. Tensors are on the first of them.

An operation of aten that computes is one kernel, also `native_dropout`, `_foreach_*`, `_fused_adamw_` (AdamW with
`fused=True`), `scaled_dot_product_attention` and `_flash_attention_forward` (half precision, cumulative lengths,
window, dropout, no other options) and their backward steps. `varlen_attn` is the latter and a fill by torch itself.

- The capture of a CUDA graph changes no memory and starts no kernel. A wait or a copy between the devices in it raises
  an error, and so does the default stream. A replay is one kernel, with two more if it draws. It takes the generator's
  present seed, and finds nothing in memory that a capture allocated.

Not simulated: speed, rounding of other kernels, atomic operations, memory (tensors of a GiB and more count), parallel
streams, errors of the driver.

In pytest: `-p tests.pretend_gpu.plugin`, and `--runs-on-gpu` to make the GPU the default device of runs. In a tree of
processes: the variables of `make_environment` add the GPU to every Python process that imports torch.
"""

import os
from pathlib import Path

VARIABLE = "PRETEND_GPU"
"""Names of the GPUs with commas between them, in the order of their numbers."""
USERS = "PRETEND_GPU_USERS"
"""Folder in which every process that uses a GPU writes a file with the GPUs that it sees."""
_ROOT = Path(__file__).parents[2]


def make_environment(names: str = "Pretend H100") -> dict[str, str]:
    """Return the variables that give pretend GPUs to all Python processes that import torch."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [str(_ROOT / "tests/pretend_gpu/hook"), str(_ROOT), *filter(None, inherited)]
    return {VARIABLE: names, "PYTHONPATH": os.pathsep.join(folders)}
