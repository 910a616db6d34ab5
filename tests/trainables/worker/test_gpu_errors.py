"""Errors of a GPU, by texts of CUDA and torch: some are those of the configuration, others of the machine."""

import pickle

import pytest
import torch

from study.utils.error_text import is_machine_fault, summarize_error
from trainables.utils.errors import MachineError, UserError
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace, classify_gpu_error
from trainables.worker.limits import GPU_MEMORY_SHARE, StepLimits

QUARTER = StepLimits(gpu=0.25)
HINT = (
    "\nSearch for `cudaErrorX' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
    "information.\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to "
    "enable device-side assertions.\n"
)
"""What torch adds to the text of every error of CUDA."""
BROKEN = (
    "CUDA error: uncorrectable ECC error encountered",
    "CUDA error: uncorrectable NVLink error detected during the execution",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: an illegal instruction was encountered",
    "CUDA error: misaligned address",
    "CUDA error: invalid program counter",
    "CUDA error: hardware stack error",
    "CUDA error: unspecified launch failure",
    "CUDA error: the launch timed out and was terminated",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    "CUDA error: no CUDA-capable device is detected",
    "CUDA error: invalid device ordinal",
    "CUDA error: no kernel image is available for execution on the device",
    "CUDA error: initialization error",
    "CUDA error: driver shutting down",
    "CUDA error: system not yet initialized",
    "CUDA error: the remote procedural call between the MPS server and the MPS client failed",
    "CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
    "CUDA error: unknown error",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
    "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasLtMatmul( ltHandle, computeDesc.descriptor())`",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "CUDA driver error: unknown error",
    "CUDA driver initialization failed, you might not have a CUDA gpu.",
    "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable",
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that "
    "might have already set an error? Error 802: system not yet initialized",
    "Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver "
    "combination",
    "The NVIDIA driver on your system is too old (found version 11040).",
    "Found no NVIDIA driver on your system.",
    "No CUDA GPUs are available",
    "HIP error: an illegal memory access was encountered",
)
CROWDED = (
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
)
OWN = (
    "CUDA error: device-side assert triggered",
    "CUDA error: invalid argument",
    "CUDA error: invalid configuration argument",
    "CUDA error: too many resources requested for launch",
    "CUDA error: operation not permitted when stream is capturing",
    "CUDA error: operation failed due to a previous error during capture",
    "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
)


def out_of_memory(tried: str, allocated: str, reserved: str, pools: str = "") -> torch.OutOfMemoryError:
    """Torch's error in a process that may use 19 GiB of a GPU of 80 GiB."""
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 80.00 GiB of which 9.00 MiB is "
        "free. Process 123 has 60.00 GiB memory in use. Including non-PyTorch memory, this process has 19.40 GiB "
        f"memory in use. 19.00 GiB allowed; Of the allocated memory {allocated} is allocated by PyTorch, {pools}and "
        f"{reserved} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management"
    )


TOO_LARGE = (
    out_of_memory("2.00 GiB", "17.00 GiB", "512.00 MiB"),
    out_of_memory("20.00 MiB", "18.97 GiB", "24.50 MiB"),
    out_of_memory("30.00 GiB", "0 bytes", "0 bytes"),
    out_of_memory(
        "2.00 GiB", "17.50 GiB", "900.00 KiB", "with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), "
    ),
)
SMALL_ENOUGH = (
    out_of_memory("2.00 GiB", "10.00 GiB", "1.00 GiB"),
    out_of_memory("20.00 MiB", "300.00 MiB", "0 bytes"),
)


@pytest.mark.parametrize("kind", [RuntimeError, torch.AcceleratorError])
@pytest.mark.parametrize("text", BROKEN)
def test_an_error_of_the_gpu_or_its_driver_is_no_result(text, kind):
    error = kind(text + HINT)
    assert classify_gpu_error(error) == "broken"
    assert is_machine_fault(error, QUARTER)
    assert summarize_error(error, QUARTER) == f"{kind.__name__}: {text}"


def test_a_gpu_that_torch_cannot_use_on_a_node_is_no_result():
    from trainables.specs.environment import _get_gpu_name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        with pytest.raises(UserError) as caught:
            _get_gpu_name()
    assert classify_gpu_error(caught.value) == "broken"
    other = MachineError("a GPU of another kind: cuda:A100 instead of cuda:H100")
    assert classify_gpu_error(other) == "broken"


@pytest.mark.parametrize("text", OWN)
def test_an_error_that_every_gpu_would_raise_is_the_configurations(text):
    error = RuntimeError(text + HINT)
    assert classify_gpu_error(error) is None
    assert not is_machine_fault(error, QUARTER)


@pytest.mark.parametrize(
    "error", [ValueError("CUDA error: unknown error"), KeyError("CUDA out of memory"), OSError("Xid")]
)
def test_another_type_of_error_may_quote_anything(error):
    assert classify_gpu_error(error) is None


@pytest.mark.parametrize("limits", [QUARTER, StepLimits(gpu=0.25, memory=4 * 10**9)])
@pytest.mark.parametrize("error", TOO_LARGE)
def test_memory_beyond_its_own_share_is_the_configurations_fault(error, limits):
    assert classify_gpu_error(error) == "too large"
    assert not is_machine_fault(error, limits)
    line = summarize_error(error, limits)
    assert f"20.4 GB are allowed, {GPU_MEMORY_SHARE:.0%} of resources.gpu = 0.25; give trials a larger share" in line
    assert "\n" not in line


@pytest.mark.parametrize("error", [*SMALL_ENOUGH, *map(RuntimeError, CROWDED)])
def test_memory_that_others_took_is_the_machines_fault(error):
    assert classify_gpu_error(error) == "crowded"
    assert is_machine_fault(error, QUARTER)
    assert is_machine_fault(error, StepLimits(gpu=0.25, memory=4 * 10**9))
    assert summarize_error(error, QUARTER).startswith("other processes left the GPU too little memory")


def test_a_fault_names_the_gpu_and_no_host_and_reaches_another_process():
    fault = GpuFaultError(GpuPlace("3f2a9c1d" * 7, "1"), "RuntimeError: CUDA error: unknown error", is_broken=True)
    again = pickle.loads(pickle.dumps(fault))
    assert str(again) == "GPU 1 of node 3f2a9c1d: RuntimeError: CUDA error: unknown error"
    assert (again.place, again.is_broken, again.remedy) == (fault.place, True, fault.remedy)
