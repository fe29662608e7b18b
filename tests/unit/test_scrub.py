"""Secrets, home folders and user names are removed from texts; harmless texts are unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
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
        ("https://a.org/a?x=1&access_token=abcdef&y=2", "https://a.org/a?x=1&access_token=***&y=2"),
        ("https://a.org/a?X-Amz-Signature=0ff#top", "https://a.org/a?X-Amz-Signature=***#top"),
        ("https://bob:p@ss@example.org/a", "https://***@example.org/a"),
        ("https://example.org/a#access_token=abcd", "https://example.org/a#access_token=***"),
        ("http://a.org/?pwd=a&auth=b&design=1", "http://a.org/?pwd=***&auth=***&design=1"),
        ("token hf_abcdefghijklmnopqrsT9 was refused", "token *** was refused"),
        ("HF_TOKEN=abcdefgh in the environment", "HF_TOKEN=*** in the environment"),
        ("AKIAABCDEFGHIJKLMNOP and xoxe-1234567890abcdef12", "*** and ***"),
        ("Authorization: token abcdefgh123", "Authorization: token ***"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("/home/alice/data/mirror", "~/data/mirror"),
        ("../../home/alice/mirror", "~/mirror"),
        ("http:///home/alice@", "http://***@"),
        ("cannot read '/scratch/alice/x'", "cannot read '/scratch/***/x'"),
        ("../../scratch/alice/x", "../../scratch/***/x"),
        ("/scratch/alice/p/alice/x", "/scratch/***/p/***/x"),
        ("file:///scratch/alice/x", "file:///scratch/***/x"),
        ("`/scratch/alice/x` [/scratch/alice/y", "`/scratch/***/x` [/scratch/***/y"),
        ("-I/home/alice/inc", "-I~/inc"),
    ],
)
@pytest.mark.usefixtures("alice")
def test_secrets_and_names_are_removed(text: str, clean: str) -> None:
    assert scrub(text) == clean
    assert scrub({"a": [text, 1, None]}) == {"a": [clean, 1, None]}


@pytest.mark.parametrize(
    "text",
    [
        "a basic statistics course",
        "sk-wikipedia-dump-2021, hf_hub_download_to_folder",
        "https://example.org/@scope/pkg@1.0/file",
        "results/alice/malice.parquet",
        "/home/alicette/x",
        "https://example.org/wonderland?page=3&keyword=2",
        "a sentence about a token = key",
    ],
)
@pytest.mark.usefixtures("alice")
def test_harmless_texts_are_unchanged(text: str) -> None:
    assert scrub(text) == text


texts = st.text() | st.lists(
    st.sampled_from(["/", "alice", "home", "..", ":", "@", "http://", "token=", "hf_", "x", " "])
).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.usefixtures("alice")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_scrubbing_is_idempotent(value: object) -> None:
    """Recorded specs are scrubbed before a comparison, so scrubbed texts must not change."""
    once = scrub(value)
    assert scrub(once) == once
