"""What Ray trains: cross-encoders and sentence encoders, their data, their losses and metrics."""
