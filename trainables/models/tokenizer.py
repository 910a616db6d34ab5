"""Loads the tokenizer of a model."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trainables.utils.errors import UserError


def load_tokenizer(path: Path, added_tokens: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """Return the model's own tokenizer, extended by special tokens.

    Args:
        path: folder with the model's files.
        added_tokens: special tokens to add, default none.

    Raises:
        UserError: if the tokenizer knows no words. Transformers returns such a tokenizer if the vocabulary of the model
            is of another kind.
    """
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if made.vocab_size <= len(made.all_special_ids):
        reason = f"the tokenizer in {path.name!r} finds no vocabulary"
        raise UserError("model.name", reason, f"the file that {type(made).__name__} reads")
    made.add_tokens(list(added_tokens), special_tokens=True)
    return made
