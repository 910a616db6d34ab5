"""Paths on the page of files; tests/study/test_end_to_end.py compares the page with a finished study."""

from tests.docs.files_page import as_pattern


def test_a_pattern_matches_one_folder() -> None:
    assert as_pattern("runs/<run id>/record.json").fullmatch("runs/0a/record.json")
    assert not as_pattern("runs/<run id>/record.json").fullmatch("runs/0a/0b/record.json")
    assert as_pattern("wandb/.data/...").fullmatch("wandb/.data/a/b.log")
    assert not as_pattern("clock.json").fullmatch("clock-json")
