"""A trainable of your own: a dense retriever, which searches a whole collection by cosines of embeddings.

- `specification`, `collection_task`: the settings of a run, and the plugin that names the two backends;
- `collection`, `texts`: the data backend, the inputs of the model;
- `loss`, `trainer`: in-batch negatives with label smoothing;
- `search`, `run`, `backend`: exact search, a run in progress, the training backend;
- `study_type`: what a study may set, vary and compare.
"""

from dense_retriever.study_type import STUDY_TYPE

__all__ = ["STUDY_TYPE"]
