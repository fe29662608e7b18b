"""Estimate what a study will cost: seconds per unit (`config/rates.yaml`) times units of each job,
which follow from its spec and the sizes of its sources (`config/sources/`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil, inf
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import Field, ValidationError

from isotropy.errors import IsotropyError
from replication.context import DataSpec
from replication.embed.spec import EmbedSpec, LookUpSpec, ShardSpec, TokensSpec
from replication.finetune.spec import FinetuneSpec
from replication.geometry import spec as geometry
from replication.optimize.spec import NODES, OptimizeSpec
from replication.plan.plan import Plan
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from replication.similarity.spec import CLUSTERED, ClassifySpec, SimilaritySpec, TuningSpec
from replication.sources.fetch import FetchSpec
from replication.sources.registry import ModelSize, Positive, TextsSize, VectorsSize
from replication.spec import Spec, Strict, first_mistake
from replication.yaml_files import read_yaml

UNITS = ("fetch", "read", "encode", "train", "update", "optimize", "sampled", "distances", "cloud")
STAGES = (
    "fetch",
    "prepare",
    "embed",
    "optimize",
    "finetune",
    "geometry",
    "similarity",
    "tables",
    "figures",
    "report",
)
S = TypeVar("S", bound=Strict)

MEGA, GIGA, TERA = 10**6, 10**9, 10**12
PROCESS_BYTES = 0.4 * GIGA
"""Memory of a job's interpreter with its libraries, in bytes."""
MAX_WORDS = 50000
"""Most words of a lexicon that are assumed to have vectors; at most half of the vectors are its."""


class Seconds(Strict):
    """Seconds per unit on a core, and on a GPU for work that it does."""

    cpu: float = Field(ge=0)
    gpu: Positive | None = None


class Rates(Strict):
    """Measured speeds, the hardware that had them, and a default number of tokens."""

    hardware: dict[str, str]
    tokens_per_text: Positive
    start: dict[str, float]
    """Stage -> seconds before the work of a job begins."""
    seconds: dict[str, Seconds]
    """Unit of work -> seconds."""


class Needs(NamedTuple):
    """What a job needs on any machine."""

    units: dict[str, float] = {}
    """Unit of work -> their number."""
    memory: float = 0
    """Memory of its data in bytes."""
    disk: float = MEGA
    """Size of its outputs in bytes."""


class Cost(NamedTuple):
    """Estimated cost of a job; disk and memory in bytes."""

    gpu: bool
    seconds: float
    disk: float
    memory: float

    @property
    def mem_mb(self) -> int:
        """Memory in MB to request: half as much again, and 1 GB."""
        return 500 * ceil((1.5 * self.memory / MEGA + 1000) / 500)

    @property
    def minutes(self) -> int:
        """Time in minutes to request: three times the estimate up to half a day, and at least half
        as much again.
        """
        estimate = self.seconds / 60
        return ceil(max(30, 1.5 * estimate, min(3 * estimate, 720)))


class Total(NamedTuple):
    """Cost of several jobs: hours with and without a GPU, and of the longest; gigabytes of all
    outputs, and of the largest memory.
    """

    jobs: int
    gpu_hours: float
    cpu_hours: float
    longest: float
    disk: float
    memory: float


@cache
def longest_runtime(*, gpu: bool) -> float:
    """Return the minutes that SLURM's partitions give a job at most, according to the file that
    the executor is told; infinity without one.
    """
    from snakemake_executor_plugin_slurm.partitions import (  # type: ignore[import-untyped]
        read_partition_file,
    )

    file = os.environ.get("SNAKEMAKE_SLURM_PARTITIONS")
    limits = [p.limits for p in read_partition_file(Path(file))] if file else []
    return max((limit.max_runtime for limit in limits if limit.max_gpu or not gpu), default=inf)


def read_rates(path: Path) -> Rates:
    """Read measured rates from a file.

    Raises:
        IsotropyError: the file does not exist, or does not hold valid rates.
    """
    try:
        rates = Rates.model_validate(read_yaml(path))
    except ValidationError as error:
        raise IsotropyError(f"{path}: {first_mistake(error, Rates)}") from error
    if absent := {*UNITS, *STAGES} - rates.seconds.keys() - rates.start.keys():
        raise IsotropyError(f"{path} lacks the rates of {', '.join(sorted(absent))}")
    return rates


@dataclass(eq=False)
class CostModel:
    """Estimates the costs of the results of a plan.

    Attributes:
        plan: the plan.
        rates: measured speeds.
        sees_gpu: whether `device: auto` is a GPU.
        unknown: sources of unknown size, which are counted as empty.
    """

    plan: Plan
    rates: Rates
    sees_gpu: bool = False
    unknown: set[str] = field(default_factory=set)

    def cost(self, stem: str, spec: Spec | None = None) -> Cost:
        """Cost of the job of one result, given its stem, and its spec if it is at hand."""
        spec = self.plan.spec(stem) if spec is None else spec
        needs = NEEDS[type(spec)](spec, self) if type(spec) in NEEDS else Needs()
        device = getattr(getattr(spec, "tokens", spec), "device", "cpu")
        gpu = device == "cuda" or (device == "auto" and self.sees_gpu)
        gpu = gpu and not self.merges(spec)
        seconds = self.rates.start[stage_of(stem)]
        for unit, n in needs.units.items():
            each = self.rates.seconds[unit]
            seconds += n * (each.gpu if gpu and each.gpu else each.cpu)
        kept = (
            GIGA * self.model(getattr(spec, "model", None)).gigabytes
            if stem in self.plan.kept
            else 0
        )
        return Cost(gpu, seconds, needs.disk + kept, PROCESS_BYTES + needs.memory)

    def merges(self, spec: Spec) -> bool:
        """Whether a job only merges token vectors that other jobs have extracted."""
        return isinstance(spec, TokensSpec) and self.plan.study.config.compute.shards > 1

    def model(self, name: str | None) -> ModelSize:
        """Size of a model."""
        return self._size(name, ModelSize, weights=0, width=0, layers=1, gigabytes=0)

    def vectors(self, name: str) -> VectorsSize:
        """Size of static vectors, those of the first origin that the study may use."""
        size = self._size(name, VectorsSize, points=0, width=0, gigabytes=0)
        source, config = self.plan.study.registry.sources[name], self.plan.study.config.sources
        for origin in source.usable_origins(config.order, mirror=bool(config.mirror)):
            if config.trust_on_first_use or source.can_verify(origin):
                return size.contents.get(origin.content, size)
        return size

    def embedding(self, name: str) -> ModelSize | VectorsSize:
        """Size of an embedding: of a model, or of static vectors."""
        is_static = self.plan.study.registry.sources[name].kind == "vectors"
        return self.vectors(name) if is_static else self.model(name)

    def rows(self, data: DataSpec | str) -> tuple[int, int]:
        """Items and distinct texts of a data set, given its spec or its name."""
        spec = self.plan.study.config.datasets[data] if isinstance(data, str) else data
        if isinstance(spec, WordsSpec):
            with_vectors = min(self.vectors(spec.vectors).points // 2, MAX_WORDS)
            items = spec.n_items or min(self._whole(spec.lexicon)[0], with_vectors)
            return items, items
        rows, texts = self._whole(spec.source)
        items = _count_items(spec, rows)
        return items, round(texts * items / rows) if rows else 0

    def items(self, name: str, limit: int | None = None) -> int:
        """Items of a data set, at most `limit`."""
        items = self.rows(name)[0]
        return min(items, limit or items)

    def columns(self, name: str) -> int:
        """Texts per item of a data set: 2 for pairs, else 1."""
        items, texts = self.rows(name)
        return 2 if texts > 1.2 * items else 1

    def tokens(self, name: str, texts: float | None = None) -> float:
        """Tokens in `texts` texts of a data set, or in all; of a whole corpus as it states them."""
        spec = self.plan.study.config.datasets[name]
        size = TextsSize() if isinstance(spec, WordsSpec) else self._texts_size(spec.source)
        if size.tokens is not None and not getattr(spec, "blocks", None):
            return size.tokens
        texts = self.rows(name)[1] if texts is None else texts
        return texts * (size.tokens_per_text or self.rates.tokens_per_text)

    def numbers(self, datasets: Iterable[str], model: str) -> float:
        """Numbers in the token vectors of data sets, in one layer."""
        return sum(map(self.tokens, datasets)) * self.model(model).width

    def _size(self, name: str | None, kind: type[S], **empty: float) -> S:
        size = self.plan.study.registry.sizes.get(name or "")
        if isinstance(size, kind):
            return size
        self.unknown.add(str(name))
        values: dict[str, Any] = {**empty}
        return cast(S, kind.model_construct(**values))  # not validated: the registry has no zeros

    def _texts_size(self, source: str) -> TextsSize:
        size = self.plan.study.registry.sizes.get(source)
        return size if isinstance(size, TextsSize) else TextsSize()

    def _whole(self, source: str) -> tuple[int, int]:
        """Rows and distinct texts of a source, from the first content that states its rows, else
        from the size in the registry.
        """
        for content in self.plan.study.registry.sources[source].contents.values():
            if content.rows is not None:
                return content.rows, content.unique_texts or content.rows
        rows = self._texts_size(source).rows
        if rows is None:
            self.unknown.add(source)
        return rows or 0, rows or 0


def _count_items(spec: SentencesSpec | CorpusSpec, rows: int) -> int:
    """Number of items that a data set takes from the rows of its source."""
    if isinstance(spec, CorpusSpec):
        return min(rows, spec.blocks.n_blocks * spec.blocks.n_lines) if spec.blocks else rows
    items = min(rows, spec.sample.n_items) if spec.sample else rows
    if spec.split is None:
        return items
    held_out = spec.split.held_out
    return round(items * (held_out if spec.split.part == "validation" else 1 - held_out))


def _model_memory(model: ModelSize) -> float:
    """Memory of a model and a batch, in bytes."""
    return 2 * GIGA * model.gigabytes + GIGA / 2


def _fetch(spec: FetchSpec, costs: CostModel) -> Needs:
    kind = costs.plan.study.registry.sources[spec.id].kind
    size = costs.embedding(spec.id).gigabytes if kind in ("model", "vectors") else 0.02
    return Needs({"fetch": size}, disk=GIGA * size)


def _prepare(spec: DataSpec, costs: CostModel) -> Needs:
    items, texts = costs.rows(spec)
    return Needs({"read": (texts + items) / MEGA}, 500 * texts, 150 * texts + 30 * items)


def _embed(spec: EmbedSpec | LookUpSpec, costs: CostModel) -> Needs:
    n_texts = costs.rows(spec.dataset)[1]
    if isinstance(spec, LookUpSpec):
        size = 4 * n_texts * costs.vectors(spec.vectors).width
        return Needs({"read": n_texts / MEGA}, 2 * size, size)
    model = costs.model(spec.model)
    size = 4 * n_texts * model.width
    units = {"encode": 2e6 * model.weights * costs.tokens(spec.dataset) / TERA}
    return Needs(units, _model_memory(model) + 2 * size, size)


def _tokens(spec: TokensSpec | ShardSpec, costs: CostModel) -> Needs:
    whole, parts = (spec.tokens, spec.shards) if isinstance(spec, ShardSpec) else (spec, 1)
    model, tokens = costs.model(whole.model), costs.tokens(whole.dataset) / parts
    size = 4 * tokens * model.width * len(whole.layers)
    if costs.merges(spec):
        return Needs({"read": tokens / MEGA}, disk=size)
    units = {"encode": 2e6 * model.weights * tokens / TERA}
    # Shards are removed once they are merged
    return Needs(units, _model_memory(model), size if parts == 1 else 0)


def _optimize(spec: OptimizeSpec, costs: CostModel) -> Needs:
    (items, texts), width = costs.rows(spec.dataset), costs.embedding(spec.embedding).width
    columns = costs.columns(spec.dataset)
    if spec.control is not None:
        items = texts = min(items, spec.control.n_items)
        width, columns = spec.control.dimensions or width, 1
    measured = min(items, spec.measure.sample_size or items)
    size = measured * width * columns
    # Embeddings, their gradient and the optimizer's state; the measured items, sorted by class, and
    # these at each step of a window
    at_once = 12 if measured < items else 12 + 4 * (NODES + 1)
    unit = "sampled" if measured < items else "optimize"
    units = {unit: 2 * spec.updates * measured * size / TERA}
    return Needs(units, GIGA / 2 + 24 * texts * width + at_once * size)


def _finetune(spec: FinetuneSpec, costs: CostModel) -> Needs:
    model, training = costs.model(spec.model), spec.training
    n_validation, longest = costs.items(spec.validation), training.max_length
    mean = costs.tokens(spec.train, 1) * costs.columns(spec.train)
    long = longest if training.pad_to_max_length else min(mean, longest)
    n_train = costs.items(spec.train, training.n_train)
    updates = training.epochs * ceil(n_train / training.batch_size)
    batch = training.batch_size * long
    shrunk = training.epochs * training.shrinkage_tokens / model.layers
    measured = 4 * n_validation * model.width
    units = {
        "train": 6e6 * model.weights * updates * batch / TERA,
        "update": updates,
        "encode": 2e6 * model.weights * (long * n_validation + shrunk) / TERA,
        # Between all sentences in all layers, for TwoNN and silhouettes
        "distances": measured * n_validation * model.layers / TERA,
    }
    states = 16e6 * model.weights + 40 * batch * model.width * model.layers
    return Needs(units, _model_memory(model) + states + measured * (model.layers + 1))


def _stability(spec: geometry.StabilitySpec, costs: CostModel) -> Needs:
    width = spec.cloud.d or costs.model(spec.cloud.embedding).width
    work = 2 * width**2 * sum(spec.sizes) * len(spec.zetas) * spec.repeats
    return Needs({"distances": work / TERA}, GIGA / 4)


def _layer(spec: geometry.LayerSpec, costs: CostModel) -> Needs:
    size, tokens = costs.numbers([spec.dataset], spec.model), costs.tokens(spec.dataset)
    work = size * len(spec.seeds) * (len(spec.types) + len(spec.variants) - 1)
    queries = min(spec.lid.n_queries or tokens, tokens)
    units = {"cloud": work / GIGA, "distances": 4 * queries * work / TERA}
    return Needs(units, (16 if len(spec.variants) == 1 else 24) * size)


def _contexts(spec: geometry.ContextsSpec, costs: CostModel) -> Needs:
    size = costs.numbers(spec.datasets, spec.model)
    return Needs({"cloud": size * (len(spec.units) + len(spec.variants) - 1) / GIGA}, 16 * size)


def _static_words(spec: geometry.StaticWordsSpec, costs: CostModel) -> Needs:
    size = costs.numbers(spec.datasets, spec.model)
    return Needs({"cloud": size * len(spec.layers) / 2 / GIGA}, 16 * size)


def _vectors(spec: geometry.VectorsSpec, costs: CostModel) -> Needs:
    vectors = costs.vectors(spec.vectors)
    size, queries = vectors.points * vectors.width, spec.lid.n_queries or vectors.points
    work = 4 * min(queries, vectors.points) * len(spec.seeds) * size
    return Needs({"distances": work / TERA}, 12 * size)


def _similarity(spec: SimilaritySpec | TuningSpec, costs: CostModel) -> Needs:
    times: float
    if isinstance(spec, TuningSpec):
        times = len(spec.n_clusters) * len(spec.n_components) * spec.n_clusterings
    else:
        clusterings = sum(m in CLUSTERED for m in spec.methods) + ("kmeans" in spec.methods)
        times = (clusterings + len(spec.cluster_counts) / 2) * spec.n_clusterings + 0.5
    embedding = costs.embedding(spec.embedding)
    if isinstance(embedding, VectorsSize):
        size = float(embedding.points * embedding.width)
    else:
        items, texts = costs.rows(spec.dataset)
        read = items * costs.columns(spec.dataset) if spec.repeat_texts else texts
        size = costs.tokens(spec.dataset, read) * embedding.width
    return Needs({"cloud": size * times / GIGA}, 24 * size)


def _classify(spec: ClassifySpec, costs: CostModel) -> Needs:
    limit = spec.n_train if spec.validation == spec.train else None
    items = costs.items(spec.train, spec.n_train) + costs.items(spec.validation, limit)
    size = items * spec.max_length * costs.model(spec.embedding).width
    return Needs({"cloud": size * len(spec.seeds) * (2 * len(spec.methods) - 1) / GIGA}, 24 * size)


NEEDS: dict[type[Spec], Callable[[Any, CostModel], Needs]] = {
    FetchSpec: _fetch,
    **dict.fromkeys((SentencesSpec, CorpusSpec, WordsSpec), _prepare),
    **dict.fromkeys((EmbedSpec, LookUpSpec), _embed),
    **dict.fromkeys((TokensSpec, ShardSpec), _tokens),
    OptimizeSpec: _optimize,
    FinetuneSpec: _finetune,
    geometry.StabilitySpec: _stability,
    geometry.LayerSpec: _layer,
    geometry.VectorsSpec: _vectors,
    geometry.ContextsSpec: _contexts,
    geometry.StaticWordsSpec: _static_words,
    **dict.fromkeys((SimilaritySpec, TuningSpec), _similarity),
    ClassifySpec: _classify,
}
"""Spec -> function that counts its units. Tables, figures, verdicts and pages only start."""


def stage_of(stem: str) -> str:
    """The stage of a result; `report` for verdicts and pages."""
    first, *rest = stem.split("/")
    return first if rest and first != "site" else "report"


def totals(
    costs: CostModel, stems: Iterable[str], scale: Mapping[tuple[str, bool], float]
) -> dict[str, Total]:
    """Cost of results per stage and in total, with factors on seconds (`status.measured_scale`)."""
    stages: dict[str, list[Cost]] = {}
    for stem in stems:
        stage, cost = stage_of(stem), costs.cost(stem)
        factor = scale.get((stage, cost.gpu), scale.get(("all", cost.gpu), 1.0))
        stages.setdefault(stage, []).append(cost._replace(seconds=cost.seconds * factor))
    together = [cost for members in stages.values() for cost in members]
    return {stage: _total(members) for stage, members in (stages | {"all": together}).items()}


def _total(costs: list[Cost]) -> Total:
    gpu, cpu = ([c.seconds / 3600 for c in costs if c.gpu is on] for on in (True, False))
    disk, memory = sum(c.disk for c in costs), max((c.memory for c in costs), default=0)
    longest = max(gpu + cpu, default=0)
    return Total(len(costs), sum(gpu), sum(cpu), longest, disk / GIGA, memory / GIGA)
