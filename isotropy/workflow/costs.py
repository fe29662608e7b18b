"""What a study will cost: hours, disk and memory of each job, from its spec, the sizes of its
sources (`config/sources/`) and measured rates (`config/rates.yaml`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from math import ceil
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import yaml
from pydantic import Field, ValidationError

from isotropy.context import DataSpec
from isotropy.embed.spec import EmbedSpec, LookUpSpec, ShardSpec, TokensSpec
from isotropy.errors import IsotropyError
from isotropy.finetune.spec import FinetuneSpec
from isotropy.geometry.spec import (
    ContextsSpec,
    LayerSpec,
    StabilitySpec,
    StaticWordsSpec,
    VectorsSpec,
)
from isotropy.optimize.spec import NODES, OptimizeSpec
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.similarity.spec import CLUSTERED, ClassifySpec, SimilaritySpec, TuningSpec
from isotropy.sources.fetch import FetchSpec
from isotropy.sources.sizes import ModelSize, Positive, TextsSize, VectorsSize
from isotropy.spec import Spec, Strict, first_mistake
from isotropy.workflow.plan import Plan

Work = Literal[
    "encode",
    "train",
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
]
GIGA = 10**9
STARTED = 0.4 * GIGA
"""Bytes of a job's interpreter with its libraries."""
MOST_WORDS = 50000
"""Words of a lexicon that have vectors, at most."""


class Rate(Strict):
    """Work per second, in units of 10^9, and seconds before it begins."""

    cpu: Positive
    gpu: Positive
    start: Annotated[float, Field(ge=0)]


class Hardware(Strict):
    """What the rates were measured on."""

    cpu: str
    gpu: str


class Rates(Strict):
    """Speeds, and what is reckoned with where the registry has no size."""

    hardware: Hardware
    tokens_per_text: Positive
    """Of data sets whose entry in the registry says nothing of tokens."""
    rates: dict[Work, Rate]


class Cost(NamedTuple):
    """What a job takes."""

    gpu: bool
    seconds: float
    disk: float
    """Bytes that it leaves."""
    memory: float
    """Bytes, at most."""


def read_rates(path: Path) -> Rates:
    """Rates from a file.

    Raises:
        IsotropyError: it is not there, or holds something else.
    """
    try:
        rates = Rates.model_validate(yaml.safe_load(path.read_text("utf8")))
    except ValidationError as error:
        raise IsotropyError(f"{path}: {first_mistake(error, Rates)}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise IsotropyError(f"{path}: expected a file of rates: {why}") from error
    if absent := set(get_args(Work)) - set(rates.rates):
        raise IsotropyError(f"{path} lacks the rates of {', '.join(sorted(absent))}")
    return rates


class Needs(NamedTuple):
    """What a job has to do and to hold."""

    work: dict[Work, float]
    """Amounts, by kind."""
    disk: float
    """Bytes that it leaves."""
    memory: float
    """Bytes of its data."""


# What counts as empty; no entry of the registry may say so, hence without validation.
NO_MODEL = ModelSize.model_construct(weights=0, width=0, layers=1, gigabytes=0)
NO_VECTORS = VectorsSize.model_construct(points=0, width=0, gigabytes=0)


@dataclass
class CostModel:
    """Costs of the results of a plan.

    Attributes:
        plan: the plan.
        rates: speeds.
        unknown: sources whose size is not known: jobs on them count as empty.
    """

    plan: Plan
    rates: Rates
    unknown: set[str] = field(default_factory=set)

    def of(self, stem: str) -> Cost:
        """Cost of one result, by its stem."""
        spec = self.plan.spec(stem)
        needs = _needs(spec, self)
        gpu = (
            not self.merges(spec)
            and getattr(getattr(spec, "tokens", spec), "device", "cpu") == "cuda"
        )
        seconds = 0.0
        for kind, amount in needs.work.items():
            rate = self.rates.rates[kind]
            seconds += rate.start + amount / ((rate.gpu if gpu else rate.cpu) * GIGA)
        return Cost(gpu, seconds, needs.disk, STARTED + needs.memory)

    def merges(self, spec: Spec) -> bool:
        """Whether a job only puts token vectors together, which others have extracted."""
        return isinstance(spec, TokensSpec) and self.plan.study.config.compute.shards > 1

    def dataset(self, name: str) -> DataSpec:
        """The spec of a data set."""
        return self.plan.study.config.datasets[name]

    def rows(self, spec: DataSpec) -> tuple[int, int]:
        """Items and distinct texts of a data set."""
        if isinstance(spec, WordsSpec):
            items = spec.n_items or min(self._whole(spec.lexicon)[0], MOST_WORDS)
            return items, items
        rows, texts = self._whole(spec.source)
        items = _part(spec, rows)
        return items, round(texts * items / rows) if rows else 0

    def texts(self, dataset: str) -> int:
        """Distinct texts of a data set."""
        return self.rows(self.dataset(dataset))[1]

    def items(self, dataset: str, most: int | None = None) -> int:
        """Items of a data set, or of a part of it."""
        items = self.rows(self.dataset(dataset))[0]
        return items if most is None else min(items, most)

    def columns(self, dataset: str) -> int:
        """2 for pairs of texts."""
        items, texts = self.rows(self.dataset(dataset))
        return 2 if texts > 1.2 * items else 1

    def tokens(self, dataset: str, texts: float) -> float:
        """Tokens of a number of texts of a data set; of a whole corpus, those that it has."""
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
        """Size of static vectors."""
        size = self.plan.study.registry.sizes.get(name)
        if not isinstance(size, VectorsSize):
            self.unknown.add(name)
            return NO_VECTORS
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
        """Rows and distinct texts of a source: those that the first of its contents with a number
        of rows has, or its size.
        """
        for content in self.plan.study.registry.sources[source].contents.values():
            if content.rows is not None:
                return content.rows, content.unique_texts or content.rows
        rows = self._texts_size(source).rows
        if rows is None:
            self.unknown.add(source)
        return rows or 0, rows or 0


def _part(spec: SentencesSpec | CorpusSpec, rows: int) -> int:
    """Items that a data set has of its source's rows."""
    if isinstance(spec, CorpusSpec):
        return min(rows, spec.blocks.n_blocks * spec.blocks.n_lines) if spec.blocks else rows
    items = min(rows, spec.sample.n_items) if spec.sample else rows
    if spec.split is None:
        return items
    held_out = spec.split.held_out
    return round(items * (held_out if spec.split.part == "validation" else 1 - held_out))


def _loaded(model: ModelSize) -> float:
    """Bytes of a model in memory, with what a batch takes."""
    return 2 * GIGA * model.gigabytes + GIGA / 2


@singledispatch
def _needs(spec: Spec, costs: CostModel) -> Needs:
    """What the job of a spec needs: of tables, figures and pages, the same for all."""
    return Needs({"show": 0}, 5e5, 0)


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
    return Needs({"encode": work}, size, _loaded(model) + 2 * size)


@_needs.register(TokensSpec)
@_needs.register(ShardSpec)
def _(spec: TokensSpec | ShardSpec, costs: CostModel) -> Needs:
    share = 1 / spec.shards if isinstance(spec, ShardSpec) else 1.0
    own = spec.tokens if isinstance(spec, ShardSpec) else spec
    model = costs.model(own.model)
    tokens = share * costs.tokens(own.dataset, costs.texts(own.dataset))
    size = 4 * tokens * model.width * len(own.layers)
    if costs.merges(spec):
        return Needs({"read": tokens}, size, 0)
    # Shares are removed once they are put together
    kept = 0 if isinstance(spec, ShardSpec) else size
    return Needs({"encode": 2e6 * model.weights * tokens}, kept, _loaded(model))


@_needs.register
def _(spec: LookUpSpec, costs: CostModel) -> Needs:
    texts = costs.texts(spec.dataset)
    size = 4 * texts * costs.vectors(spec.vectors).width
    return Needs({"read": texts}, size, 2 * size)


@_needs.register
def _(spec: OptimizeSpec, costs: CostModel) -> Needs:
    dataset = costs.dataset(spec.dataset)
    items, texts = costs.rows(dataset)
    of_words = costs.is_static(spec.embedding)
    width = (costs.vectors if of_words else costs.model)(spec.embedding).width
    sampled = spec.measure.sample_size is not None and spec.measure.sample_size < items
    # A pair of texts is an item of twice the width.
    columns = 2 if isinstance(dataset, SentencesSpec) and texts > 1.2 * items else 1
    measured = min(items, spec.measure.sample_size or items)
    work = 2.0 * spec.updates * measured**2 * width * columns
    # Embeddings, their gradient and what the optimizer keeps of each number; what is measured,
    # in the order of its classes, and that at the steps of a window.
    at_once = 12.0 if sampled else 12.0 + 4 * (NODES + 1)
    memory = GIGA / 2 + 24.0 * texts * width + at_once * measured * width * columns
    return Needs({"optimize_sampled" if sampled else "optimize": work}, 1e6, memory)


@_needs.register
def _(spec: FinetuneSpec, costs: CostModel) -> Needs:
    model, training = costs.model(spec.model), spec.training
    items, known = costs.items(spec.train, training.n_train), costs.items(spec.validation)
    # Items of the training set are its texts, or pairs of them.
    long = min(costs.tokens(spec.train, 1) * costs.columns(spec.train), training.max_length)
    long = training.max_length if training.pad_to_max_length else long
    updates = training.epochs * ceil(items / training.batch_size)
    trained = 6e6 * model.weights * updates * training.batch_size * long
    shrunk = training.epochs * training.shrinkage_tokens / (long * model.layers)
    read = 2e6 * model.weights * long * (known + shrunk)
    # Distances of all sentences in all layers: TwoNN, and silhouettes.
    pairs = 4.0 * known**2 * model.width * model.layers
    states = (
        4 * 4e6 * model.weights + 40.0 * training.batch_size * long * model.width * model.layers
    )
    memory = _loaded(model) + states + 4 * known * model.width * (model.layers + 1)
    return Needs({"train": trained, "encode": read, "score": pairs}, 2e6, memory)


@_needs.register
def _(spec: StabilitySpec, costs: CostModel) -> Needs:
    draws = len(spec.sizes) * len(spec.zetas) * spec.repeats
    return Needs({"read": draws}, 1e5, GIGA / 4)


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
    size = _of_sentences(spec.datasets, spec.model, costs)
    repeated = len(spec.units) + len(spec.variants) - 1
    return Needs({"contexts": size * repeated}, 1e6, 16 * size)


@_needs.register
def _(spec: StaticWordsSpec, costs: CostModel) -> Needs:
    size = _of_sentences(spec.datasets, spec.model, costs)
    return Needs({"contexts": size * len(spec.layers) / 2}, 1e6, 16 * size)


def _of_sentences(datasets: list[str], model: str, costs: CostModel) -> float:
    """Numbers in the token vectors of data sets, in one layer."""
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
    size = _cloud(spec, costs)
    times = clustered + len(spec.cluster_counts) * spec.n_clusterings / 2 + 0.5
    return Needs({"similarity": size * times}, 5e5, 24 * size)


@_needs.register
def _(spec: TuningSpec, costs: CostModel) -> Needs:
    size = _cloud(spec, costs)
    times = len(spec.n_clusters) * len(spec.n_components) * spec.n_clusterings
    return Needs({"similarity": size * times}, 5e5, 24 * size)


def _cloud(spec: SimilaritySpec | TuningSpec, costs: CostModel) -> float:
    """Numbers in the vectors that are post-processed."""
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
    return Needs({"classify": work}, 1e6, 24 * size)


class Total(NamedTuple):
    """What the jobs of a stage take together."""

    jobs: int
    gpu_hours: float
    cpu_hours: float
    """Hours of jobs without a GPU."""
    longest: float
    """Hours of the longest job."""
    disk: float
    """Gigabytes that are there at the end."""
    memory: float
    """Gigabytes of the largest job."""


def totals(costs: CostModel) -> dict[str, Total]:
    """What a study takes, per stage and in all, if nothing of it is there yet."""
    stages: dict[str, list[Cost]] = {}
    for stem in costs.plan.stems():
        first, *below = stem.split("/")
        stage = first if below and first != "site" else "report"
        stages.setdefault(stage, []).append(costs.of(stem))
    found = {stage: _total(own) for stage, own in stages.items()}
    return found | {"all": _total([cost for own in stages.values() for cost in own])}


def _total(costs: list[Cost]) -> Total:
    gpu, cpu = ([c.seconds / 3600 for c in costs if c.gpu is on] for on in (True, False))
    disk, memory = sum(c.disk for c in costs) / GIGA, max(c.memory for c in costs) / GIGA
    return Total(len(costs), sum(gpu), sum(cpu), max(gpu + cpu), disk, memory)
