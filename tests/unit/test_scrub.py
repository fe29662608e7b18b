"""What must not be in a record is not in it, and what is harmless stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotropy import scrub as module
from isotropy.scrub import scrub


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.getpass, "getuser", lambda: "alice")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/alice"))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://bob:pa55@example.org/a.zip", "https://***@example.org/a.zip"),
        ("https://example.org/a?x=1&access_token=abcdef&y=2", "https://example.org/a?x=1&access_token=***&y=2"),
        ("https://example.org/a?X-Amz-Signature=0ff#top", "https://example.org/a?X-Amz-Signature=***#top"),
        ("token hf_abcdefghijklmnopqrst was refused", "token *** was refused"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("/home/alice/data/mirror", "~/data/mirror"),
        ("../../home/alice/mirror", "~/mirror"),
        ("cannot read '/scratch/alice/x'", "cannot read '/scratch/***/x'"),
        ("../../scratch/alice/x", "../../scratch/***/x"),
        ("results/alice/malice.parquet", "results/alice/malice.parquet"),
        ("/home/alicette/x", "/home/alicette/x"),
        ("https://example.org/wonderland?page=3", "https://example.org/wonderland?page=3"),
        ("a sentence about a token = key", "a sentence about a token = key"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_texts(text: str, clean: str) -> None:
    assert scrub(text) == clean
    assert scrub({"a": [text, 1, None]}) == {"a": [clean, 1, None]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_scrubbing_twice_changes_nothing(value: object) -> None:
    """Specs are compared scrubbed, so what is clean must stay as it is."""
    once = scrub(value)
    assert scrub(once) == once
