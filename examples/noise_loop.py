"""A contrastive loss with noise among the negatives (GS-InfoNCE) in a PyTorch loop of your own.

A small encoder embeds sentences as bags of words. Two passes with dropout give two views of each sentence, and the
other sentences of the batch are its negatives (SimCSE). GS-InfoNCE adds Gaussian noise vectors to the negatives. Their
terms are in the denominator only, so the loss with noise is never below the loss without it.

Run it: python examples/noise_loop.py
"""

import torch
from torch import nn

from trainables.contrastive import draw_noise, info_nce

WORDS, HIDDEN, BATCH_SIZE, TEMPERATURE = 500, 32, 16, 0.05


def train(multiple: int) -> None:
    """Train an encoder with `multiple` x batch size noise vectors and print both losses."""
    torch.manual_seed(1)
    sentences = torch.randint(WORDS, (256, 12))
    encoder = nn.Sequential(nn.EmbeddingBag(WORDS, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), nn.Dropout(0.2))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.003)
    for step in range(60):
        batch = sentences[torch.randint(len(sentences), (BATCH_SIZE,))]
        first, second = encoder(batch), encoder(batch)
        noise = draw_noise(seed=1, step=step, count=multiple * BATCH_SIZE, hidden=HIDDEN)
        loss = info_nce(first, second, TEMPERATURE, noise, noise_weight=1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            plain = info_nce(first, second, TEMPERATURE)
            print(f"{multiple:8} {step + 1:5} {loss.item():9.4f} {plain.item():14.4f}")


if __name__ == "__main__":
    print("multiple  step      loss  without noise")
    train(multiple=0)  # SimCSE
    train(multiple=3)  # GS-InfoNCE
