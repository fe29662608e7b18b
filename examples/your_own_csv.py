"""Your own texts and your own model through the workflow: from a CSV file with two columns to the
verdicts of a paper.

    python examples/your_own_csv.py CSV MODEL [--text FIELD] [--label FIELD] [--quick]

CSV has a header; MODEL is a folder with model.safetensors. Run it in a checkout whose environment
is active. docs/your-model.md explains each step.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("csv", type=Path)
parser.add_argument("model", type=Path)
parser.add_argument("--text", default="text", help="the column of the texts")
parser.add_argument("--label", default="label", help="the column of the classes")
parser.add_argument("--quick", action="store_true", help="a small part, to see that it works")
given = parser.parse_args()


def run(*command: str) -> None:
    """Run a command of this environment, and show what it says."""
    subprocess.run([sys.executable, "-m", *command], check=True)


# 1. Entries of the registry: digests, classes, width and layers are worked out.
of_texts = ["--text", given.text, "--label", given.label, "--name", "example-texts"]
run("isotropy", "sources", "add", str(given.csv), *of_texts, "--replace")
run("isotropy", "sources", "add", str(given.model), "--name", "example-model", "--replace")

# 2. The study: these lines are all of it.
configfile = Path("config/local/example.yaml")
configfile.write_text(
    "study: example\n"
    "extension:\n"
    "  models: [example-model]\n"
    "  datasets: [example-texts]\n"
    "  papers: [mickus2024]\n"
)

# 3. The workflow, in a folder of its own.
configuration = ["config/smoke.yaml"] if given.quick else []
folder = Path("studies/example")
folder.mkdir(parents=True, exist_ok=True)
arguments = ["--cores", "2", "--directory", str(folder), "--quiet", "rules"]
run(
    "snakemake",
    *arguments,
    "--configfile",
    *configuration,
    str(configfile),
    "--",
    "results/scorecard.csv",
)

# 4. Which claims hold for this model, on these texts?
with (folder / "results/scorecard.csv").open(encoding="utf8", newline="") as stream:
    for row in csv.DictReader(stream):
        if row["model"] == "example-model":
            print(f"{row['word']:13} {row['statement']}")
