"""The console command `isotropy`: `measure`, and in a checkout the commands of the workflow."""

from __future__ import annotations

import importlib
import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

import isotropy
from isotropy.console import plain_console
from isotropy.errors import IsotropyError, missing_package
from isotropy.printable import escape_for_terminal

CHECKOUT = Path(__file__).resolve().parents[1]
Device = Literal["auto", "cpu", "cuda"]

console = plain_console()
app = typer.Typer(no_args_is_help=True)


def run() -> None:
    """Run the console command. Where a package of an extra is missing, one sentence says which."""
    measuring = sys.argv[1:2] == ["measure"]
    try:
        if not measuring and (CHECKOUT / "replication").is_dir():
            sys.path.append(str(CHECKOUT))
            importlib.import_module("replication.cli").app()
        app()
    except ModuleNotFoundError as error:
        if (sentence := missing_package(error, measuring=measuring)) is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(2)


def _version(requested: bool) -> None:
    if requested:
        print(f"isotropy {isotropy.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
]


@app.callback()
def main(version: Version = False) -> None:
    """Measure embedding spaces; in a checkout of the workflow, also plan studies and audit
    results.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal cannot show become question marks
            stream.reconfigure(errors="replace")


@contextmanager
def error_in_one_line() -> Iterator[None]:
    """Print the message of an error, and exit with its code, 2 for most."""
    try:
        yield
    except (IsotropyError, OSError) as error:
        print_line(str(error), "red")
        raise typer.Exit(getattr(error, "exit_code", 2)) from None


def print_line(text: str, style: str | None = None) -> None:
    """Print one line without markup or line breaks, with control characters escaped."""
    console.print(escape_for_terminal(text), style=style, soft_wrap=True)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT…",
        help=".npy, .npz, .safetensors, .parquet, .csv, .tsv, word vectors as .txt, .vec or .bin, "
        "these with .gz, a model's folder, or ORG/NAME[@REVISION] of a hub.",
    ),
]
Texts = Annotated[
    str | None,
    typer.Option(
        help="Texts for a model, FILE[:FIELD]: .txt, .jsonl, .json, .csv, .tsv, .parquet."
    ),
]
Layers = Annotated[
    str | None,
    typer.Option(
        help="Layers of a model (0,6,-1, output, or all; default: the output of a model of "
        "sentence-transformers, else the last) or arrays of a file."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of a table that are dimensions: names or globs, separated by commas; "
        "default: columns of lists, columns 0, 1, 2, …, or all of a file without names."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(help="What stands between the fields of a table: ',', ';' or '\\t'."),
]
Quoting = Annotated[
    bool,
    typer.Option("--quoting", help="Quotation marks enclose fields between tabs, as in CSV."),
]
Pool = Annotated[
    str | None,
    typer.Option(help="mean, cls, last, or tokens (a row per token); default: the model's own."),
]
Prompt = Annotated[
    str | None, typer.Option(help="Text before each text; default: the model's own default prompt.")
]
PromptName = Annotated[
    str | None, typer.Option(help="One of the prompts of a sentence-transformers model.")
]
TruncateDim = Annotated[
    int | None, typer.Option(help="Dimensions of a sentence-transformers model's output to keep.")
]
Labels = Annotated[
    str | None,
    typer.Option(help="Classes for silhouettes: a field of the texts or table, or FILE[:FIELD]."),
]
Types = Annotated[
    str | None,
    typer.Option(
        help="Words for S_inter, S_intra, self-similarity: a field of the texts, or FILE[:FIELD]."
    ),
]
Sentences = Annotated[
    str | None,
    typer.Option(
        help="Sentences for intra-sentence similarity: a field of the texts, or FILE[:FIELD]."
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(help="Names, separated by commas; default: all possible; 'list' prints them."),
]
Sample = Annotated[
    int | None, typer.Option(help="Measure this many rows, drawn without replacement.")
]
Seed = Annotated[int, typer.Option(help="Random seed for sampling.")]
Transforms = Annotated[
    bool,
    typer.Option(
        "--transforms",
        help="Compare IsoScore and I(W) before and after Center, AllButTheTop and "
        "ClusterBasedEnhancement.",
    ),
]
Clusters = Annotated[int, typer.Option(help="Clusters of ClusterBasedEnhancement.")]
Components = Annotated[
    int | None, typer.Option(help="Principal components to remove; default: dimensions / 100.")
]
SaveTransform = Annotated[
    Path | None,
    typer.Option(
        help="File (.safetensors) for the transform that raises IsoScore most, beyond its error."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with all digits, and no table.")]
RowsFile = Annotated[Path | None, typer.Option(help="File for the rows.")]
RecordFile = Annotated[
    Path | None, typer.Option(help="File for the rows, arguments, digests of inputs, environment.")
]
DeviceOption = Annotated[Device, typer.Option(help="Device on which a model runs.")]


@app.command()
def measure(
    inputs: Inputs,
    texts: Texts = None,
    layers: Layers = None,
    columns: Columns = None,
    separator: Separator = None,
    quoting: Quoting = False,
    pooling: Pool = None,
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    truncate_dim: TruncateDim = None,
    labels: Labels = None,
    types: Types = None,
    sentences: Sentences = None,
    metrics: Metrics = None,
    sample: Sample = None,
    seed: Seed = 0,
    transforms: Transforms = False,
    clusters: Clusters = 10,
    components: Components = None,
    save_transform: SaveTransform = None,
    json: Json = False,
    csv: RowsFile = None,
    parquet: RowsFile = None,
    record: RecordFile = None,
    device: DeviceOption = "auto",
) -> None:
    """Measure embeddings: a row per layer with IsoScore and its standard error, cosines,
    I(W), dimensions, silhouettes.

    Files are streamed: memory is bounded, whatever their size. No pickle is read, and no code of a
    model is run.
    """
    arguments = dict(locals())
    with error_in_one_line(), _temporary_folder() as work:
        from isotropy.measurement import output
        from isotropy.measurement.inputs import Request, make_request
        from isotropy.measurement.run import print_metrics, run

        if metrics == "list":
            print_metrics()
            return
        options = [name for name in Request._fields if name != "inputs"]
        request = make_request(inputs, {name: arguments[name] for name in options})
        output.require_writable([p for p in (csv, parquet, record, save_transform) if p])
        result = run(request, work)
        output.show(result, as_json=json)
        output.write(result, csv=csv, parquet=parquet)
        if record:
            output.write_record(record, request._asdict(), result)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A temporary folder for data that are too large for memory."""
    with tempfile.TemporaryDirectory(
        prefix="isotropy-measure-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name)
