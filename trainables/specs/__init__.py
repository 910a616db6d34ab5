"""Specifications of runs and their hashes, checkpoint keys, trials, and the plugin interface.

The id of a run is the hash of its specification (`run_spec`); `ranker` and `sentence_encoder` add the fields of each
trainable. `checkpoints` finds the points of a training at which checkpoints are shared, such as a switch point.
"""
