"""Estimate what a study will cost: hours, disk and memory of each job, from its spec, the sizes of
its sources (`config/sources/`) and measured rates (`config/rates.yaml`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from math import ceil
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import yaml
from pydantic import Field, ValidationError

from isotropy.errors import IsotropyError
from replication.context import DataSpec
from replication.embed.spec import EmbedSpec, LookUpSpec, ShardSpec, TokensSpec
from replication.figures.spec import FigureSpec
from replication.finetune.spec import FinetuneSpec
from replication.geometry.spec import (
    ContextsSpec,
    LayerSpec,
    StabilitySpec,
    StaticWordsSpec,
    VectorsSpec,
)
from replication.optimize.spec import NODES, OptimizeSpec
from replication.plan.gpu_memory import CONTEXT, LONGEST, encoding_memory, training_memory
from replication.plan.plan import Plan
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from replication.similarity.spec import CLUSTERED, ClassifySpec, SimilaritySpec, TuningSpec
from replication.sources.fetch import FetchSpec
from replication.sources.sizes import ModelSize, Positive, TextsSize, VectorsSize
from replication.spec import Spec, Strict, first_mistake

Work = Literal[
    "encode",
    "train",
    "update",
    "score",
    "optimize",
    "optimize_sampled",
    "geometry",
    "contexts",
    "neighbours",
    "similarity",
    "classify",
    "read",
    "fetch",
    "show",
    "draw",
]
GIGA = 10**9
PROCESS_BYTES = 0.4 * GIGA
"""Memory of a job's interpreter with its libraries, in bytes."""
MAX_WORDS = 50000
"""Most words of a lexicon that are assumed to have vectors; at most half of the vectors are its."""


class Rate(Strict):
    """Work per second, in units of 10^9, and seconds before the work begins."""

    cpu: Positive
    gpu: Positive
    start: Annotated[float, Field(ge=0)]


class Hardware(Strict):
    """The hardware on which the rates were measured."""

    cpu: str
    gpu: str


class Rates(Strict):
    """Measured speeds, and a default for sizes that the registry does not state."""

    hardware: Hardware
    tokens_per_text: Positive
    """Default for data sets whose registry entry states no number of tokens."""
    rates: dict[Work, Rate]


class Cost(NamedTuple):
    """Estimated cost of a job."""

    gpu: bool
    seconds: float
    disk: float
    """Size of its outputs in bytes."""
    memory: float
    """Largest memory in bytes."""
    gpu_memory: float
    """Largest memory on a GPU in bytes, if the job computes on one; 0 for a job that never does."""


def read_rates(path: Path) -> Rates:
    """Read measured rates from a file.

    Raises:
        IsotropyError: the file does not exist, or does not hold valid rates.
    """
    try:
        rates = Rates.model_validate(yaml.safe_load(path.read_text("utf8")))
    except ValidationError as error:
        raise IsotropyError(f"{path}: {first_mistake(error, Rates)}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise IsotropyError(f"{path}: expected a file of rates: {reason}") from error
    if absent := set(get_args(Work)) - set(rates.rates):
        raise IsotropyError(f"{path} lacks the rates of {', '.join(sorted(absent))}")
    return rates


class Needs(NamedTuple):
    """Work, disk and memory that a job needs, independent of the machine."""

    work: dict[Work, float]
    """Amount of each kind of work."""
    disk: float
    """Size of its outputs in bytes."""
    memory: float
    """Memory of its data in bytes."""
    gpu_memory: float = 0
    """Memory of its data on a GPU in bytes, if it computes on one."""


# Stand for unknown sizes. Not validated, since the registry accepts no sizes of zero.
NO_MODEL = ModelSize.model_construct(weights=0, width=0, layers=1, gigabytes=0)
NO_VECTORS = VectorsSize.model_construct(points=0, width=0, gigabytes=0)


@dataclass
class CostModel:
    """Estimates the costs of the results of a plan.

    Attributes:
        plan: the plan.
        rates: measured speeds.
        scale: factors on seconds by stage and by whether the job has a GPU, from finished jobs
            (`replication.plan.status.measured_scale`); a stage without one has that of `all`.
        unknown: sources of unknown size, which are counted as empty.
        sees_gpu: whether `device: auto` is a GPU.
    """

    plan: Plan
    rates: Rates
    scale: Mapping[tuple[str, bool], float] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    sees_gpu: bool = False

    def cost(self, stem: str) -> Cost:
        """Cost of the job of one result, given its stem."""
        spec = self.plan.spec(stem)
        needs = _needs(spec, self)
        device = getattr(getattr(spec, "tokens", spec), "device", "cpu")
        device = "cpu" if self.merges(spec) else device
        gpu = device == "cuda" or (device == "auto" and self.sees_gpu)
        seconds = 0.0
        for kind, amount in needs.work.items():
            rate = self.rates.rates[kind]
            seconds += rate.start + amount / ((rate.gpu if gpu else rate.cpu) * GIGA)
        disk = needs.disk
        if stem in self.plan.kept and isinstance(spec, FinetuneSpec):
            disk += GIGA * self.model(spec.model).gigabytes
        seconds *= self.scale.get((stage_of(stem), gpu), self.scale.get(("all", gpu), 1.0))
        gpu_memory = CONTEXT + needs.gpu_memory if gpu else 0
        return Cost(gpu, seconds, disk, PROCESS_BYTES + needs.memory, gpu_memory)

    def merges(self, spec: Spec) -> bool:
        """Whether a job only merges token vectors that other jobs have extracted."""
        return isinstance(spec, TokensSpec) and self.plan.study.config.compute.shards > 1

    def dataset(self, name: str) -> DataSpec:
        """The spec of a data set."""
        return self.plan.study.config.datasets[name]

    def rows(self, spec: DataSpec) -> tuple[int, int]:
        """Items and distinct texts of a data set."""
        if isinstance(spec, WordsSpec):
            with_vectors = min(self.vectors(spec.vectors).points // 2, MAX_WORDS)
            items = spec.n_items or min(self._whole(spec.lexicon)[0], with_vectors)
            return items, items
        rows, texts = self._whole(spec.source)
        items = _count_items(spec, rows)
        return items, round(texts * items / rows) if rows else 0

    def texts(self, dataset: str) -> int:
        """Distinct texts of a data set."""
        return self.rows(self.dataset(dataset))[1]

    def items(self, dataset: str, limit: int | None = None) -> int:
        """Number of items of a data set, at most `limit`."""
        items = self.rows(self.dataset(dataset))[0]
        return items if limit is None else min(items, limit)

    def columns(self, dataset: str) -> int:
        """Texts per item of a data set: 2 for pairs, else 1."""
        items, texts = self.rows(self.dataset(dataset))
        return 2 if texts > 1.2 * items else 1

    def tokens(self, dataset: str, texts: float) -> float:
        """Tokens in `texts` texts of a data set; for a whole corpus, as the registry states."""
        spec = self.dataset(dataset)
        size = TextsSize() if isinstance(spec, WordsSpec) else self._texts_size(spec.source)
        if size.tokens is not None and not getattr(spec, "blocks", None):
            return size.tokens
        return texts * (size.tokens_per_text or self.rates.tokens_per_text)

    def model(self, name: str) -> ModelSize:
        """Size of a model."""
        size = self.plan.study.registry.sizes.get(name)
        if not isinstance(size, ModelSize):
            self.unknown.add(name)
            return NO_MODEL
        return size

    def vectors(self, name: str) -> VectorsSize:
        """Size of static vectors, those of the first origin that the study may use."""
        size = self.plan.study.registry.sizes.get(name)
        if not isinstance(size, VectorsSize):
            self.unknown.add(name)
            return NO_VECTORS
        source, config = self.plan.study.registry.sources[name], self.plan.study.config.sources
        for origin in source.usable_origins(config.order, mirror=bool(config.mirror)):
            if config.trust_on_first_use or source.can_verify(origin):
                return size.contents.get(origin.content, size)
        return size

    def is_static(self, embedding: str) -> bool:
        """Whether an embedding is one of static vectors, not of a model."""
        return self.plan.study.registry.sources[embedding].kind == "vectors"

    def files(self, source: str) -> float:
        """Bytes of a source's files."""
        kind = self.plan.study.registry.sources[source].kind
        if kind == "model":
            return GIGA * self.model(source).gigabytes
        return GIGA * (self.vectors(source).gigabytes if kind == "vectors" else 0.02)

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


@singledispatch
def _needs(spec: Spec, costs: CostModel) -> Needs:
    """Needs of the job of a spec. The default is for tables, verdicts and pages."""
    return Needs({"show": 0}, 5e5, 0)


@_needs.register
def _(spec: FigureSpec, costs: CostModel) -> Needs:
    return Needs({"draw": 0}, 5e5, 0)


@_needs.register
def _(spec: FetchSpec, costs: CostModel) -> Needs:
    size = costs.files(spec.id)
    return Needs({"fetch": size}, size, 0)


@_needs.register(SentencesSpec)
@_needs.register(CorpusSpec)
@_needs.register(WordsSpec)
def _(spec: DataSpec, costs: CostModel) -> Needs:
    items, texts = costs.rows(spec)
    return Needs({"read": texts + items}, 150 * texts + 30 * items, 500 * texts)


@_needs.register
def _(spec: EmbedSpec, costs: CostModel) -> Needs:
    texts, model = costs.texts(spec.dataset), costs.model(spec.model)
    size = 4 * texts * model.width
    work = 2e6 * model.weights * costs.tokens(spec.dataset, texts)
    gpu_memory = encoding_memory(model, spec.token_budget, spec.dtype, n_states=0)
    return Needs({"encode": work}, size, _model_memory(model) + 2 * size, gpu_memory)


@_needs.register(TokensSpec)
@_needs.register(ShardSpec)
def _(spec: TokensSpec | ShardSpec, costs: CostModel) -> Needs:
    share = 1 / spec.shards if isinstance(spec, ShardSpec) else 1.0
    tokens_spec = spec.tokens if isinstance(spec, ShardSpec) else spec
    model = costs.model(tokens_spec.model)
    tokens = share * costs.tokens(tokens_spec.dataset, costs.texts(tokens_spec.dataset))
    size = 4 * tokens * model.width * len(tokens_spec.layers)
    if costs.merges(spec):
        return Needs({"read": tokens}, size, 0)
    # Shards are removed once they are merged
    disk = 0 if isinstance(spec, ShardSpec) else size
    gpu_memory = encoding_memory(
        model, tokens_spec.token_budget, tokens_spec.dtype, n_states=model.layers + 1
    )
    work = 2e6 * model.weights * tokens
    return Needs({"encode": work}, disk, _model_memory(model), gpu_memory)


@_needs.register
def _(spec: LookUpSpec, costs: CostModel) -> Needs:
    texts = costs.texts(spec.dataset)
    size = 4 * texts * costs.vectors(spec.vectors).width
    return Needs({"read": texts}, size, 2 * size)


@_needs.register
def _(spec: OptimizeSpec, costs: CostModel) -> Needs:
    dataset = costs.dataset(spec.dataset)
    items, texts = costs.rows(dataset)
    is_static = costs.is_static(spec.embedding)
    width = (costs.vectors if is_static else costs.model)(spec.embedding).width
    if spec.control is not None:
        items = texts = min(items, spec.control.n_items)
        width = spec.control.dimensions or width
    sampled = spec.measure.sample_size is not None and spec.measure.sample_size < items
    # A pair of texts is an item of twice the width.
    columns = 2 if isinstance(dataset, SentencesSpec) and texts > 1.2 * items else 1
    measured = min(items, spec.measure.sample_size or items)
    work = 2.0 * spec.updates * measured**2 * width * columns
    # Embeddings, their gradient and the optimizer's state; the measured items, sorted by class, and
    # these at each step of a window.
    at_once = 12.0 if sampled else 12.0 + 4 * (NODES + 1)
    memory = GIGA / 2 + 24.0 * texts * width + at_once * measured * width * columns
    return Needs({"optimize_sampled" if sampled else "optimize": work}, 1e6, memory, memory)


@_needs.register
def _(spec: FinetuneSpec, costs: CostModel) -> Needs:
    model, training = costs.model(spec.model), spec.training
    items, n_validation = costs.items(spec.train, training.n_train), costs.items(spec.validation)
    # An item of the training set is a text, or a pair of texts.
    long = min(costs.tokens(spec.train, 1) * costs.columns(spec.train), training.max_length)
    long = training.max_length if training.pad_to_max_length else long
    updates = training.epochs * ceil(items / training.batch_size)
    trained = 6e6 * model.weights * updates * training.batch_size * long
    shrunk = training.epochs * training.shrinkage_tokens / (long * model.layers)
    read = 2e6 * model.weights * long * (n_validation + shrunk)
    # Distances between all sentences in all layers, for TwoNN and silhouettes.
    pairs = 4.0 * n_validation**2 * model.width * model.layers
    states = (
        4 * 4e6 * model.weights + 40.0 * training.batch_size * long * model.width * model.layers
    )
    memory = _model_memory(model) + states + 4 * n_validation * model.width * (model.layers + 1)
    work: dict[Work, float] = {"train": trained, "update": updates, "encode": read, "score": pairs}
    return Needs(work, 2e6, memory, _finetuning_gpu_memory(spec, costs))


def _finetuning_gpu_memory(spec: FinetuneSpec, costs: CostModel) -> float:
    """Memory of fine-tuning on a GPU in bytes: that of the batch with the longest text."""
    model, training = costs.model(spec.model), spec.training
    longest: float = training.max_length
    if not training.pad_to_max_length:
        mean = costs.tokens(spec.train, 1) * costs.columns(spec.train)
        longest = min(LONGEST * mean, longest)
    penalized_layers = 0
    if spec.method.strength is not None:
        penalized_layers = model.layers if spec.method.layers == "all" else 1
    return training_memory(
        model, training.batch_size * longest, training.precision, penalized_layers
    )


@_needs.register
def _(spec: StabilitySpec, costs: CostModel) -> Needs:
    cloud = spec.cloud
    width = cloud.d or costs.model(cloud.embedding or "").width
    # Covariances of all samples
    work = 2.0 * width**2 * sum(spec.sizes) * len(spec.zetas) * spec.repeats
    return Needs({"score": work}, 1e5, GIGA / 4)


@_needs.register
def _(spec: LayerSpec, costs: CostModel) -> Needs:
    tokens = costs.tokens(spec.dataset, costs.texts(spec.dataset))
    size = tokens * costs.model(spec.model).width
    queries = min(spec.lid.n_queries or tokens, tokens)
    repeated = len(spec.seeds) * (len(spec.types) + len(spec.variants) - 1)
    work: dict[Work, float] = {
        "geometry": size * repeated,
        "neighbours": 4 * queries * size * repeated,
    }
    return Needs(work, 1e6, (16 if len(spec.variants) == 1 else 24) * size)


@_needs.register
def _(spec: ContextsSpec, costs: CostModel) -> Needs:
    size = _token_values(spec.datasets, spec.model, costs)
    repeated = len(spec.units) + len(spec.variants) - 1
    return Needs({"contexts": size * repeated}, 1e6, 16 * size)


@_needs.register
def _(spec: StaticWordsSpec, costs: CostModel) -> Needs:
    size = _token_values(spec.datasets, spec.model, costs)
    return Needs({"contexts": size * len(spec.layers) / 2}, 1e6, 16 * size)


def _token_values(datasets: list[str], model: str, costs: CostModel) -> float:
    """Number of values in the token vectors of data sets, in one layer."""
    tokens = sum(costs.tokens(name, costs.texts(name)) for name in datasets)
    return tokens * costs.model(model).width


@_needs.register
def _(spec: VectorsSpec, costs: CostModel) -> Needs:
    vectors = costs.vectors(spec.vectors)
    queries = min(spec.lid.n_queries or vectors.points, vectors.points)
    size = 4.0 * vectors.points * vectors.width
    return Needs({"neighbours": 4 * queries * len(spec.seeds) * size / 4}, 1e5, 3 * size)


@_needs.register
def _(spec: SimilaritySpec, costs: CostModel) -> Needs:
    clustered = sum(m in CLUSTERED for m in spec.methods) * spec.n_clusterings
    size = _cloud_values(spec, costs)
    controls = spec.n_clusterings if "kmeans" in spec.methods else 0  # two, without k-means
    times = clustered + controls + len(spec.cluster_counts) * spec.n_clusterings / 2 + 0.5
    return Needs({"similarity": size * times}, 5e5, 24 * size)


@_needs.register
def _(spec: TuningSpec, costs: CostModel) -> Needs:
    size = _cloud_values(spec, costs)
    times = len(spec.n_clusters) * len(spec.n_components) * spec.n_clusterings
    return Needs({"similarity": size * times}, 5e5, 24 * size)


def _cloud_values(spec: SimilaritySpec | TuningSpec, costs: CostModel) -> float:
    """Number of values in the vectors that are post-processed."""
    if costs.is_static(spec.embedding):
        vectors = costs.vectors(spec.embedding)
        return float(vectors.points * vectors.width)
    items, texts = costs.rows(costs.dataset(spec.dataset))
    counted = items * costs.columns(spec.dataset) if spec.repeat_texts else texts
    return costs.tokens(spec.dataset, counted) * costs.model(spec.embedding).width


@_needs.register
def _(spec: ClassifySpec, costs: CostModel) -> Needs:
    items = costs.items(spec.train, spec.n_train) + costs.items(
        spec.validation, spec.n_train if spec.validation == spec.train else None
    )
    size = items * spec.max_length * costs.model(spec.embedding).width
    work = size * len(spec.seeds) * (2 * len(spec.methods) - 1)
    model = costs.model(spec.embedding)
    gpu_memory = encoding_memory(model, spec.token_budget, spec.dtype, n_states=model.layers + 1)
    return Needs({"classify": work}, 1e6, 24 * size, gpu_memory)


SAVES_GPU_MEMORY = {
    "embed": "a smaller compute.token_budget, or compute.dtype: bfloat16",
    "finetune": "a smaller batch_size, or precision: bfloat16",
    "optimize": "a (smaller) sample_size of the measured items",
    "similarity": "a smaller compute.token_budget, or compute.dtype: bfloat16",
}
"""What to change if a job of a stage needs too much memory of a GPU."""


def gpu_memory_warning(costs: CostModel, stems: Iterable[str], available: float) -> str | None:
    """Say which job, of those of some results, takes most of a GPU's memory, if it takes more than
    there is by its estimate.

    Args:
        costs: the estimates.
        stems: results that jobs are about to make.
        available: memory of a GPU, in MB.

    Returns:
        The job, its estimate and what to change; None if each job has enough.
    """
    estimates = {stem: costs.cost(stem).gpu_memory / 10**6 for stem in stems}
    exceeding = [stem for stem, estimate in estimates.items() if estimate > available]
    if not exceeding:
        return None
    largest = max(exceeding, key=estimates.__getitem__)
    n_others = len(exceeding) - 1
    others = f" ({n_others:,} other job{'s' * (n_others > 1)} too)" if n_others else ""
    return (
        f"{largest} needs more memory than a GPU of this machine has{others}: about "
        f"{estimates[largest]:,.0f} MB of {available:,.0f} MB. It may run out of memory: set "
        f"{SAVES_GPU_MEMORY[stage_of(largest)]}"
    )


class Total(NamedTuple):
    """Cost of all jobs of a stage together."""

    jobs: int
    gpu_hours: float
    cpu_hours: float
    """Hours of jobs without a GPU."""
    longest: float
    """Hours of the longest job."""
    disk: float
    """Gigabytes of all outputs."""
    memory: float
    """Gigabytes of memory of the largest job."""
    gpu_memory: float
    """The same of a GPU's memory; 0 without jobs that ask for a GPU."""


def stage_of(stem: str) -> str:
    """The stage of a result; `report` for verdicts and pages."""
    first, *rest = stem.split("/")
    return first if rest and first != "site" else "report"


def totals(costs: CostModel, stems: Iterable[str]) -> dict[str, Total]:
    """Cost of results per stage and in total."""
    stages: dict[str, list[Cost]] = {}
    for stem in stems:
        stages.setdefault(stage_of(stem), []).append(costs.cost(stem))
    stage_totals = {stage: _total(stage_costs) for stage, stage_costs in stages.items()}
    return stage_totals | {
        "all": _total([cost for stage_costs in stages.values() for cost in stage_costs])
    }


def _total(costs: list[Cost]) -> Total:
    gpu, cpu = ([c.seconds / 3600 for c in costs if c.gpu is on] for on in (True, False))
    disk, memory = sum(c.disk for c in costs), max((c.memory for c in costs), default=0)
    gpu_memory = max((c.gpu_memory for c in costs if c.gpu), default=0)
    longest = max(gpu + cpu, default=0)
    return Total(
        len(costs), sum(gpu), sum(cpu), longest, disk / GIGA, memory / GIGA, gpu_memory / GIGA
    )
