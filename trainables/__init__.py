"""The trainables that Ray runs: cross-encoders and sentence encoders, their data, losses and metrics."""
