"""Runs trials on Ray: the cluster and its nodes, the searcher, the trainable, failures.

`connect` and `nodes` find a cluster and its capacity, `tuner` starts Ray Tune, `searcher` hands it the scheduler's
trials, `trainable` is a trial. `node_monitor` reacts when a node is lost, `broken_gpus` when a GPU fails, `failure`
classifies why a trial failed.
"""
