"""Loads the tokenizer of a model."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trainables.models.pretrained import report_unloadable
from trainables.utils.errors import UserError


def load_tokenizer(path: Path, added_tokens: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """Return the model's own tokenizer, extended by special tokens.

    Args:
        path: folder with the model's files.
        added_tokens: special tokens to add, default none.

    Raises:
        UserError: if its files are damaged, or the tokenizer knows no words. Transformers returns such a tokenizer if
            the vocabulary of the model is of another kind.
    """
    with report_unloadable(path):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if tokenizer.vocab_size <= len(tokenizer.all_special_ids):
        reason = f"the tokenizer in {path.name!r} finds no vocabulary"
        raise UserError("model.name", reason, f"the vocabulary file that {type(tokenizer).__name__} reads")
    tokenizer.add_tokens(list(added_tokens), special_tokens=True)
    return tokenizer
