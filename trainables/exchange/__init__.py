"""Models in the formats of other libraries: trained ones are written, cross-encoders are read."""
