"""Hashes of JSON values."""

import hashlib
import json
import re


def hash_json(value: object) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of `value` as JSON.

    The JSON has sorted keys and no spaces. Every run id, fingerprint and checkpoint key is such a hash.

    Raises:
        ValueError: the value contains a NaN or an infinity.

    Example:
        >>> hash_json({"epsilon": 0.2, "seed": 1}) == hash_json({"seed": 1, "epsilon": 0.2})
        True
        >>> len(hash_json([]))
        16
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_hash(text: str) -> bool:
    """Return whether a text has the form of what `hash_json` returns.

    Example:
        >>> is_hash(hash_json([])), is_hash("thesis")
        (True, False)
    """
    return re.fullmatch("[0-9a-f]{16}", text) is not None
