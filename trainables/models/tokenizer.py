"""Loads the tokenizer that a model brings."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trainables.utils.errors import UserError


def load_tokenizer(path: Path, added_tokens: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """The model's own tokenizer, which also knows the special tokens `added`.

    Raises:
        UserError: it knows no words. Transformers makes such a tokenizer where a model has another kind's vocabulary.
    """
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if made.vocab_size <= len(made.all_special_ids):
        reason = f"the tokenizer in {path.name!r} finds no vocabulary"
        raise UserError("model.name", reason, f"the file that {type(made).__name__} reads")
    made.add_tokens(list(added_tokens), special_tokens=True)
    return made
