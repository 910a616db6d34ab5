"""A curriculum in a PyTorch loop of your own: easy instances first, paced by a pacing function.

The easiest instances are those far from the boundary between the two classes. At each step the batch is drawn from the
easiest share of the training instances. The share grows with `root_2` pacing from a third to all at 80 % of training.

Run it: python examples/curriculum_loop.py
"""

import torch
from torch.nn.functional import cross_entropy

from trainables.curriculum import PACING

STEPS, BATCH_SIZE, INSTANCES = 200, 32, 900


def main() -> None:
    """Train a classifier with the curriculum and print its progress."""
    torch.manual_seed(1)
    features = torch.randn(INSTANCES, 8)
    margin = features.sum(dim=1)
    labels, difficulty = (margin > 0).long(), -margin.abs()  # low is easy
    order = difficulty.argsort()
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    print("step  share  available  hardest rank      loss")
    for step in range(STEPS):
        share = PACING["root_2"](step, T=0.8 * STEPS, delta=0.33)
        available = max(1, round(share * INSTANCES))
        ranks = torch.randint(available, (BATCH_SIZE,))  # places in the order, 0 is the easiest instance
        rows = order[ranks]
        loss = cross_entropy(model(features[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"{step:4} {share:6.3f} {available:10} {ranks.max().item():13} {loss.item():9.4f}")
    accuracy = (model(features).argmax(dim=1) == labels).float().mean().item()
    print(f"accuracy on all instances: {accuracy:.3f}")


if __name__ == "__main__":
    main()
