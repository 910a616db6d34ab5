"""Sessions of pytest with a pretend GPU: the tests of a GPU, and a sample of all others with their runs on it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PLUGIN = "tests.pretend_gpu.plugin"
TESTS_OF_A_GPU = (
    *("tests/gpu/test_device.py", "tests/gpu/test_runs.py", "tests/gpu/test_budgets.py"),
    *("tests/trainables/training/test_gpu.py", "tests/trainables/models/test_attention.py"),
    *("tests/trainables/rankers/test_gpu_runs.py", "tests/trainables/training/test_graphs.py"),
    "tests/trainables/models/test_precision.py::test_tf32_is_on_inside_the_block_and_off_afterwards",
    "tests/trainables/exchange/test_classifier.py::test_a_gpu_gives_the_scores_of_the_processor",
    "tests/trainables/exchange/test_export.py::test_the_cosine_is_a_module_with_code_in_the_folder",
)
SAMPLE = (
    "models/test_packing.py::test_the_gradients_of_the_parts_add_up_to_that_of_the_batch",
    "rankers/test_curriculum_runs.py::test_a_batch_of_a_run_holds_easy_queries_first",
    "rankers/test_label_noise.py::test_the_loss_is_that_of_the_same_rows_with_noisy_labels",
    "rankers/test_losses.py::test_the_reported_loss_is_that_of_the_batch_and_parts_have_its_gradient",
    "rankers/test_retrieved.py::test_the_metrics_are_those_of_ir_measures",
    "sentence_encoders/test_runner.py::test_a_run_that_is_killed_after_any_batch_ends_the_same",
    "sentence_encoders/test_trainer.py::test_training_is_plain_simcse_in_torch[GS]",
    "sentence_encoders/test_trainer.py::test_training_is_plain_simcse_in_torch[RoBERTa, mean]",
    "training/test_best_weights.py::test_a_run_ends_with_its_best_evaluation",
    "training/test_frozen_features.py::test_stored_and_computed_texts_mix_in_any_order[ranker]",
    "training/test_trainer.py::test_training_is_a_plain_loop_in_torch",
    "training/test_trainer.py::test_dropout_is_drawn_again_at_every_step",
    "training/test_trainer.py::test_a_loss_that_is_not_finite_ends_the_run",
)
"""Tests in tests/trainables of what is trained, which have an oracle on the processor or in the run itself."""


def run_session(*arguments: str) -> str:
    """Run tests with a pretend GPU; all must pass. Returns the output of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "not long", "-p", "no:cacheprovider", "-p", PLUGIN]
    done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(autouse=True)
def needs_no_gpu(request: pytest.FixtureRequest) -> None:
    """Skip inside such a session, and where torch is built for GPUs."""
    if request.config.pluginmanager.hasplugin(PLUGIN) or torch.version.cuda is not None:
        pytest.skip("needs a session without a GPU, and a CPU build of torch")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tests_of_a_gpu_pass() -> None:
    printed = run_session(*TESTS_OF_A_GPU)
    assert "no CUDA GPU here" not in printed
    assert "needs -p" not in printed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_trained_can_be_trained_on_a_gpu() -> None:
    run_session("--runs-on-gpu", *(f"tests/trainables/{name}" for name in SAMPLE))
