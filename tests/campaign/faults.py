"""Faults of a hub, through the real hub client: never wrong bytes, never a traceback.

python -m tests.campaign.faults [--n 200] [--seed 0]

Fetches three reviews from a hub on this machine that shows one fault, a random number of times; in
every second case a mirror has them as well. A fetch must give the right bytes, from the hub or the
mirror, or fail with an error message of one line. Counted as missed: other bytes, leftover files,
other exceptions.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from huggingface_hub import constants

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.sources import clients
from tests.unit.hub import FAULTS, Hub
from tests.unit.reviews import FILES, HUB, MIRROR, run, source


def campaign(n: int, seed: int, kinds: Sequence[str] = FAULTS) -> tuple[Counter[str], list[str]]:
    """Fetch `n` times. Returns counts by fault and outcome, and descriptions of missed faults."""
    logging.getLogger("isotropy").setLevel(logging.CRITICAL)
    counts, missed = Counter[str](), list[str]()
    for i in range(n):
        draw = random.Random(f"{seed}-{i}")
        fault = kinds[i % len(kinds)]
        with tempfile.TemporaryDirectory() as folder:
            times, heads = draw.choice([1, 2, 50]), draw.random() < 0.5
            outcome = _fetch(Path(folder), fault, times, heads=heads, mirrored=i % 2 == 0)
        counts[f"{fault}: {outcome.split(':')[0]}"] += 1
        if outcome.startswith("missed"):
            missed.append(f"{fault}, case {i} of seed {seed}: {outcome}")
    return counts, missed


def _fetch(folder: Path, fault: str, times: int, *, heads: bool, mirrored: bool) -> str:
    """Fetch once from a faulty hub, and describe the outcome."""
    mirror = folder / "mirror"
    mirror.mkdir()
    for name, data in FILES.items():
        (mirror / name).write_bytes(data)
    hub = Hub(dict(FILES))
    hub.fault, hub.times, hub.heads = fault, times, heads
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    try:
        with (
            mock.patch.object(constants, "ENDPOINT", hub.url),
            mock.patch.object(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template),
            mock.patch.object(constants, "HF_HUB_OFFLINE", False),
            mock.patch.object(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.4),
            mock.patch.object(constants, "HF_HUB_ETAG_TIMEOUT", 0.4),
            mock.patch.multiple(clients, FIRST_WAIT_SECONDS=0.001, TRANSFER_SECONDS=1.0),
        ):
            origins: list[dict[str, object]] = [{**HUB}, {**MIRROR}] if mirrored else [{**HUB}]
            fetched, _, destination = run(source(*origins), folder, mirror if mirrored else None)
    except IsotropyError as error:
        return "refused" if "\n" not in str(error) else f"missed: several lines: {error}"
    except Exception as error:
        return f"missed: {type(error).__name__}: {error}"
    finally:
        hub.close()
    written = {p.name: sha256_file(p) for p in destination.rglob("*") if p.is_file()}
    if written != {p.name: sha256_file(p) for p in mirror.iterdir()}:
        return f"missed: other files: {sorted(written)}"
    return f"from the {fetched.origin.split()[0]}"


def main() -> int:
    """Run a campaign; return exit code 1 if a fault was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    counts, missed = campaign(arguments.n, arguments.seed)
    for line in missed:
        print(line)
    for outcome, count in sorted(counts.items()):
        print(f"{count:5d} {outcome}")
    print(f"{counts.total()} fetches, {len(FAULTS)} kinds of faults: {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
