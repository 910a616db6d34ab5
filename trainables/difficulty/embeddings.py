"""Word vectors of sigma_SM from the model at hand, where the user names no file: its input embeddings."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainables.data.samplers import Floats
from trainables.difficulty.vectors import Known, WordVectors, means
from trainables.errors import UserError

_EMBEDDINGS = "embeddings.word_embeddings.weight"
_LONGEST = 512
"""Word pieces of a word; of a longer one the first count."""


def of_model(folder: Path) -> WordVectors:
    """The input embeddings of a model: a word's vector is the mean of those of its word pieces.

    Pieces that the tokenizer does not know are left out.

    Raises:
        UserError: the model's file has no such embeddings.
    """
    from safetensors import safe_open

    from trainables.cross_encoder import tokenizer

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if name.endswith(_EMBEDDINGS)]  # noqa: SIM118
        if len(names) != 1:
            expected = "one, or a file of word vectors as curriculum.vectors"
            raise UserError("model.name", f"{len(names)} tensors {_EMBEDDINGS}", expected)
        embeddings = file.get_tensor(names[0])  # (pieces, dimension)
    pieces = tokenizer(folder)

    def parts(words: Sequence[str]) -> list[list[int]]:
        if not words:
            return []
        texts = [f" {word}" for word in words]  # some tokenizers tell the beginning of a word by the space before it
        ids = pieces(texts, add_special_tokens=False, truncation=True, max_length=_LONGEST)["input_ids"]
        return [[i for i in own if i != pieces.unk_token_id and i < len(embeddings)] for own in ids]

    def look_up(words: Sequence[str]) -> tuple[Floats, Known]:
        found = parts(words)
        missing = [place for place, own in enumerate(found) if not own]
        for place, own in zip(missing, parts([words[place].lower() for place in missing]), strict=True):
            found[place] = own
        used = sorted({i for own in found for i in own})
        numbers = {i: number for number, i in enumerate(used)}
        values = means([[numbers[i] for i in own] for own in found], embeddings[used].double().numpy())
        return values, np.array([len(own) > 0 for own in found], dtype=bool)

    return look_up
