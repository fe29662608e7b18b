"""The command `isotropy measure`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from isotropy.cli.audit import one_sentence

if TYPE_CHECKING:
    pass

Device = Literal["auto", "cpu", "cuda"]


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT…",
        help=".npy, .safetensors, .parquet, word vectors as .txt or .vec, a model's folder, or "
        "ORG/NAME[@REVISION] of a hub.",
    ),
]
Texts = Annotated[
    str | None,
    typer.Option(help="FILE[:FIELD] that a model embeds: .txt, .jsonl, .csv, .parquet."),
]
Layers = Annotated[
    str | None,
    typer.Option(help="all, or a list as 0,6,-1: of a model (default: the last) or a file."),
]
Pool = Annotated[
    str | None,
    typer.Option(help="mean, cls, last, or tokens: a row each; default: as the model does."),
]
Labels = Annotated[
    str | None,
    typer.Option(help="Classes for silhouettes: a field of the texts, or FILE[:FIELD]."),
]
Types = Annotated[
    str | None, typer.Option(help="Words for S_inter, S_intra, self-similarity: the same.")
]
Sentences = Annotated[
    str | None, typer.Option(help="Sentences for intra-sentence similarity: the same.")
]
Metrics = Annotated[
    str | None,
    typer.Option(help="A list; default: all that the input allows. 'list' prints them."),
]
Sample = Annotated[
    int | None, typer.Option(help="Measure this many rows, drawn without replacement.")
]
Seed = Annotated[int, typer.Option(help="Of what is drawn.")]
Transforms = Annotated[
    bool,
    typer.Option(
        "--transforms",
        help="Compare IsoScore and I(W) before and after Center, AllButTheTop and "
        "ClusterBasedEnhancement.",
    ),
]
Clusters = Annotated[int, typer.Option(help="Of ClusterBasedEnhancement.")]
Components = Annotated[int | None, typer.Option(help="To remove; default: dimensions / 100.")]
SaveTransform = Annotated[
    Path | None,
    typer.Option(help="Write the transform with the largest IsoScore: a .safetensors."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with all digits, and no table.")]
RowsFile = Annotated[Path | None, typer.Option(help="Write the rows.")]
RecordFile = Annotated[
    Path | None,
    typer.Option(help="Write the rows, arguments, digests of inputs and the environment."),
]
OfModel = Annotated[Device, typer.Option(help="Where a model computes.")]


def measure(
    inputs: Inputs,
    texts: Texts = None,
    layers: Layers = None,
    pooling: Pool = None,
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
    device: OfModel = "auto",
) -> None:
    """Measure embeddings: a row per layer with IsoScore, cosines, I(W), dimensions, silhouettes.

    Files are streamed: memory is bounded, whatever their size. No pickle is read, and no code of a
    model is run.
    """
    given = dict(locals())
    with one_sentence(), _folder() as work:
        from isotropy.measure import output
        from isotropy.measure.run import Request, print_metrics, run

        if metrics == "list":
            print_metrics()
            return
        request = Request(**{name: given[name] for name in Request._fields})
        output.require_writable([p for p in (csv, parquet, record, save_transform) if p])
        result = run(request, work)
        output.show(result, as_json=json)
        output.write(result, csv=csv, parquet=parquet)
        if record:
            output.write_record(record, request._asdict(), result)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for what is too large for memory, removed at the end."""
    with tempfile.TemporaryDirectory(
        prefix="isotropy-measure-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name)
