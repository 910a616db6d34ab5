"""SHA-256 of values and of files."""

import hashlib
import json


def hash_json(value: object) -> str:
    """First 16 hexadecimal digits of the SHA-256 of `value` as JSON with sorted keys and no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
