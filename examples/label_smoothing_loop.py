"""Two-stage label smoothing (T-LS) in a PyTorch loop of your own.

A linear ranker scores documents with 8 features; a fifth of its training labels is wrong. The smoothing has its full
strength in the first half of training and strength 0 in the second half. Before the switch point the smoothed ranker
is less confident than one without smoothing. At the end of training it is not.

Run it: python examples/label_smoothing_loop.py
"""

import torch

from trainables.losses.objective import Objective, Supervision
from trainables.smoothing import SCHEDULES

STEPS, BATCH_SIZE, TRAINING = 200, 32, 1000


def train(epsilon: float) -> None:
    """Train a ranker with this strength and print what it does at four steps."""
    torch.manual_seed(1)
    features = torch.randn(2 * TRAINING, 8)
    labels = (features.sum(dim=1) > 0).double()
    given = torch.where(torch.rand(len(labels)) < 0.2, 1 - labels, labels)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    objective = Objective("cross_entropy", "uniform")
    for step in range(STEPS):
        strength = SCHEDULES["two_stage"](epsilon, step, STEPS, switch=0.5)
        rows = torch.randint(TRAINING, (BATCH_SIZE,))
        supervision = Supervision.of_labels(given[None, rows].numpy())
        loss = objective.compute_sum(model(features[rows])[None], supervision, strength) / BATCH_SIZE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            chances = model(features[TRAINING:]).softmax(dim=1)
            accuracy = (chances.argmax(dim=1) == labels[TRAINING:]).float().mean()
            confidence = chances.max(dim=1).values.mean()
            print(f"{epsilon:7} {step + 1:5} {strength:9} {confidence:11.3f} {accuracy:9.3f}")


if __name__ == "__main__":
    print("epsilon  step  strength  confidence  accuracy")
    train(epsilon=0.0)
    train(epsilon=0.4)
