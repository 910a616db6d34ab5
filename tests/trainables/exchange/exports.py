"""The scores of an exported ranker by each of the two libraries, also as a process that knows nothing of the project.

python exports.py FOLDER PAIRS.json prints the scores as JSON, by the name of the library.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

Pairs = list[tuple[str, str]]


def score_with_sentence_transformers(folder: Path, pairs: Pairs) -> np.ndarray:
    """The scores that a user gets."""
    has_code = any(folder.glob("*.py"))
    return np.asarray(CrossEncoder(str(folder), device="cpu", trust_remote_code=has_code).predict(pairs))


def score_with_transformers(folder: Path, pairs: Pairs) -> np.ndarray:
    """The scores by the parts of transformers alone; what follows the encoder in a folder of modules is done here."""
    queries, documents = zip(*pairs, strict=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(list(queries), list(documents), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        if not (folder / "modules.json").is_file() or not (folder / "2_Dense").is_dir():
            model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
            return np.asarray(model(**inputs).logits[:, 0].double().numpy())
        hidden = AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
        mask = inputs["attention_mask"][:, :, None]
        pooled = hidden[:, 0] if (folder / "3_Dense").is_dir() else (hidden * mask).sum(1) / mask.sum(1)
        for place in sorted(folder.glob("*_Dense")):
            weights = load_file(place / "model.safetensors")
            pooled = pooled @ weights["linear.weight"].T + weights["linear.bias"]
            if json.loads((place / "config.json").read_text("utf-8"))["activation_function"].endswith("Tanh"):
                pooled = torch.tanh(pooled)
        return np.asarray(pooled[:, 0].double().numpy())


if __name__ == "__main__":
    found = Path(sys.argv[1]), [(first, second) for first, second in json.loads(Path(sys.argv[2]).read_text("utf-8"))]
    by_library = {"sentence-transformers": score_with_sentence_transformers(*found).tolist()}
    if not any(found[0].glob("*.py")):
        by_library["transformers"] = score_with_transformers(*found).tolist()
    print(json.dumps(by_library))
