"""What a study will cost: hours, disk and memory of each job, from its spec and measured rates
(`config/rates.yaml`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import yaml
from pydantic import Field, ValidationError

from isotropy.embed.spec import EmbedSpec, LookUpSpec, ShardSpec, TokensSpec
from isotropy.errors import IsotropyError
from isotropy.finetune.spec import FinetuneSpec
from isotropy.geometry.spec import LayerSpec, StabilitySpec, VectorsSpec
from isotropy.optimize.spec import OptimizeSpec
from isotropy.plan import Plan
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.similarity.spec import CLUSTERED, ClassifySpec, SimilaritySpec, TuningSpec
from isotropy.sources.fetch import FetchSpec
from isotropy.spec import Spec, Strict

Work = Literal[
    "encode",
    "train",
    "score",
    "optimize",
    "optimize_sampled",
    "geometry",
    "neighbours",
    "similarity",
    "classify",
    "read",
    "fetch",
    "show",
]
Positive = Annotated[float, Field(gt=0)]
GIGA = 10**9
STARTED = 0.4 * GIGA
"""Bytes of a job's interpreter with its libraries."""


class Rate(Strict):
    """Work per second, in units of 10^9, and seconds before it begins."""

    cpu: Positive
    gpu: Positive
    start: Annotated[float, Field(ge=0)]


class Hardware(Strict):
    """What the rates were measured on."""

    cpu: str
    gpu: str


class ModelSize(Strict):
    """Millions of multiplications per token; numbers per token and layer; layers; gigabytes of
    files.
    """

    weights: Positive
    width: int
    layers: int
    gigabytes: Positive


class VectorsSize(Strict):
    """Points, dimensions, gigabytes of files."""

    points: int
    width: int
    gigabytes: Positive


class Rates(Strict):
    """Sizes that no spec has, and speeds."""

    hardware: Hardware
    models: dict[str, ModelSize]
    vectors: dict[str, VectorsSize]
    rows: dict[str, int]
    tokens_per_text: dict[str, Positive]
    tokens_per_text_else: Positive
    tokens: dict[str, int]
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
    except (OSError, ValueError, yaml.YAMLError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        why = (
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            if first
            else " ".join(str(error).split())
        )
        raise IsotropyError(f"{path}: no rates: {why}") from error
    if absent := set(get_args(Work)) - set(rates.rates):
        raise IsotropyError(f"{path}: no rates: {', '.join(sorted(absent))}: missing")
    return rates


@dataclass
class Estimate:
    """Costs of the results of a plan.

    Attributes:
        plan: the plan.
        rates: sizes and speeds.
        unknown: sources and models whose size is not known: jobs on them count as empty.
    """

    plan: Plan
    rates: Rates
    unknown: set[str] = field(default_factory=set)

    def of(self, stem: str) -> Cost:
        """Cost of one result, by its stem."""
        spec = self.plan.spec(stem)
        work, disk, memory = self._needs(spec)
        gpu = (
            not self._merges(spec)
            and getattr(getattr(spec, "tokens", spec), "device", "cpu") == "cuda"
        )
        per_second = {
            kind: (rate.gpu if gpu else rate.cpu) * GIGA for kind, rate in self.rates.rates.items()
        }
        seconds = sum(
            self.rates.rates[kind].start + amount / per_second[kind]
            for kind, amount in work.items()
        )
        return Cost(gpu, seconds, disk, STARTED + memory)

    def _merges(self, spec: Spec) -> bool:
        """Whether a job only puts token vectors together, which others have extracted."""
        return isinstance(spec, TokensSpec) and self.plan.study.config.compute.shards > 1

    def _needs(self, spec: Spec) -> tuple[dict[Work, float], float, float]:
        """Work by kind, bytes on disk, bytes in memory."""
        match spec:
            case FetchSpec():
                size = self._files(spec.id)
                return {"fetch": size}, size, 0
            case SentencesSpec() | CorpusSpec() | WordsSpec():
                items, texts = self._rows(spec)
                return {"read": texts + items}, 150 * texts + 30 * items, 500 * texts
            case EmbedSpec():
                texts = self._texts(spec.dataset)
                model = self._model(spec.model)
                size = 4 * texts * model.width
                return (
                    {"encode": 2e6 * model.weights * self._tokens(spec.dataset, texts)},
                    size,
                    self._loaded(model) + 2 * size,
                )
            case TokensSpec() | ShardSpec():
                share = 1 / spec.shards if isinstance(spec, ShardSpec) else 1.0
                own = spec.tokens if isinstance(spec, ShardSpec) else spec
                model = self._model(own.model)
                tokens = share * self._tokens(own.dataset, self._texts(own.dataset))
                size = 4 * tokens * model.width * len(own.layers)
                if self._merges(spec):
                    return {"read": tokens}, size, 0
                # Shares are removed once they are put together
                kept = 0 if isinstance(spec, ShardSpec) else size
                return {"encode": 2e6 * model.weights * tokens}, kept, self._loaded(model)
            case LookUpSpec():
                texts = self._texts(spec.dataset)
                size = 4 * texts * self._vectors(spec.vectors).width
                return {"read": texts}, size, 2 * size
            case OptimizeSpec():
                return self._optimize(spec)
            case FinetuneSpec():
                return self._finetune(spec)
            case StabilitySpec():
                draws = len(spec.sizes) * len(spec.zetas) * spec.repeats
                return {"read": draws}, 1e5, GIGA / 4
            case LayerSpec():
                return self._layer(spec)
            case VectorsSpec():
                vectors = self._vectors(spec.vectors)
                queries = min(spec.lid.n_queries or vectors.points, vectors.points)
                size = 4.0 * vectors.points * vectors.width
                return {"neighbours": 4 * queries * len(spec.seeds) * size / 4}, 1e5, 3 * size
            case SimilaritySpec() | TuningSpec():
                return self._similarity(spec)
            case ClassifySpec():
                items = sum(
                    self._drawn(d, spec.n_train if d == spec.train else None)
                    for d in (spec.train, spec.validation)
                )
                size = items * spec.max_length * self._model(spec.embedding).width
                return (
                    {"classify": size * len(spec.seeds) * (2 * len(spec.methods) - 1)},
                    1e6,
                    24 * size,
                )
        return {"show": 0}, 5e5, 0

    def _optimize(self, spec: OptimizeSpec) -> tuple[dict[Work, float], float, float]:
        dataset = self.plan.study.config.datasets[spec.dataset]
        items, texts = self._rows(dataset)
        source = self.plan.study.registry.sources[spec.embedding]
        width = (self._vectors if source.kind == "vectors" else self._model)(spec.embedding).width
        sampled = spec.measure.sample_size is not None and spec.measure.sample_size < items
        # A pair of texts is an item of twice the width.
        columns = 2 if isinstance(dataset, SentencesSpec) and texts > 1.2 * items else 1
        measured = min(items, spec.measure.sample_size or items)
        work = 2.0 * spec.updates * measured**2 * width * columns
        # Embeddings, their gradient and what the optimizer keeps of each number; what is measured,
        # in the order of its classes.
        memory = GIGA / 2 + 24.0 * texts * width + 12.0 * measured * width * columns
        return {"optimize_sampled" if sampled else "optimize": work}, 1e6, memory

    def _finetune(self, spec: FinetuneSpec) -> tuple[dict[Work, float], float, float]:
        model, training = self._model(spec.model), spec.training
        items, known = self._drawn(spec.train, training.n_train), self._drawn(spec.validation, None)
        # Items of the training set are its texts, or pairs of them.
        long = min(self._tokens(spec.train, 1) * self._columns(spec.train), training.max_length)
        updates = training.epochs * ceil(items / training.batch_size)
        trained = 6e6 * model.weights * updates * training.batch_size * long
        read = (
            2e6
            * model.weights
            * long
            * (known + training.epochs * training.shrinkage_tokens / (long * model.layers))
        )
        # Distances of all sentences in all layers: TwoNN, and silhouettes.
        pairs = 4.0 * known**2 * model.width * model.layers
        states = (
            4 * 4e6 * model.weights + 40.0 * training.batch_size * long * model.width * model.layers
        )
        memory = self._loaded(model) + states + 4 * known * model.width * (model.layers + 1)
        return {"train": trained, "encode": read, "score": pairs}, 2e6, memory

    def _layer(self, spec: LayerSpec) -> tuple[dict[Work, float], float, float]:
        tokens = self._tokens(spec.dataset, self._texts(spec.dataset))
        size = tokens * self._model(spec.model).width
        queries = min(spec.lid.n_queries or tokens, tokens)
        repeated = len(spec.seeds) * len(spec.types)
        return (
            {"geometry": size * repeated, "neighbours": 4 * queries * size * repeated},
            1e6,
            16 * size,
        )

    def _similarity(
        self, spec: SimilaritySpec | TuningSpec
    ) -> tuple[dict[Work, float], float, float]:
        config = self.plan.study.config
        source = self.plan.study.registry.sources[spec.embedding]
        if source.kind == "vectors":
            vectors = self._vectors(spec.embedding)
            size = float(vectors.points * vectors.width)
        else:
            items, texts = self._rows(config.datasets[spec.dataset])
            counted = items * self._columns(spec.dataset) if spec.repeat_texts else texts
            size = self._tokens(spec.dataset, counted) * self._model(spec.embedding).width
        if isinstance(spec, TuningSpec):
            times: float = len(spec.n_clusters) * len(spec.n_components) * spec.runs
        else:
            times = (
                sum(m in CLUSTERED for m in spec.methods) * spec.runs
                + len(spec.more_clusters) * spec.runs / 2
                + 0.5
            )
        return {"similarity": size * times}, 5e5, 24 * size

    def _rows(self, spec: Spec) -> tuple[int, int]:
        """Items and distinct texts of a data set."""
        name = str(getattr(spec, "source", None) or getattr(spec, "lexicon", None))
        known = [
            c
            for c in self.plan.study.registry.sources[name].contents.values()
            if c.rows is not None
        ]
        if isinstance(spec, WordsSpec):
            items = spec.n_items or min(
                known[0].rows or 0 if known else self._unregistered(name), 50000
            )
            return items, items
        rows = (known[0].rows or 0) if known else self._unregistered(name)
        texts = (known[0].unique_texts or rows) if known else rows
        items = rows
        if isinstance(spec, CorpusSpec) and spec.blocks is not None:
            items = min(rows, spec.blocks.n_blocks * spec.blocks.n_lines)
        if isinstance(spec, SentencesSpec):
            items = min(items, spec.sample.n_items) if spec.sample else items
            if spec.split:
                items = round(
                    items
                    * (
                        spec.split.held_out
                        if spec.split.part == "validation"
                        else 1 - spec.split.held_out
                    )
                )
        return items, round(texts * items / rows) if rows else 0

    def _texts(self, dataset: str) -> int:
        """Distinct texts of a data set."""
        return self._rows(self.plan.study.config.datasets[dataset])[1]

    def _drawn(self, dataset: str, most: int | None) -> int:
        """Items of a data set, or of a part of it."""
        items = self._rows(self.plan.study.config.datasets[dataset])[0]
        return items if most is None else min(items, most)

    def _columns(self, dataset: str) -> int:
        """2 for pairs."""
        items, texts = self._rows(self.plan.study.config.datasets[dataset])
        return 2 if texts > 1.2 * items else 1

    def _tokens(self, dataset: str, texts: float) -> float:
        spec = self.plan.study.config.datasets[dataset]
        source = str(getattr(spec, "source", ""))
        if source in self.rates.tokens and not getattr(spec, "blocks", None):
            return self.rates.tokens[source]
        known = [
            n
            for name, n in self.rates.tokens_per_text.items()
            if name in (source, dataset) or source.startswith(name)
        ]
        return texts * (known[0] if known else self.rates.tokens_per_text_else)

    def _unregistered(self, source: str) -> int:
        if source not in self.rates.rows:
            self.unknown.add(source)
        return self.rates.rows.get(source, 0)

    def _model(self, name: str) -> ModelSize:
        if name not in self.rates.models:
            self.unknown.add(name)
        return self.rates.models.get(
            name, ModelSize(weights=1e-9, width=0, layers=1, gigabytes=1e-9)
        )

    def _vectors(self, name: str) -> VectorsSize:
        if name not in self.rates.vectors:
            self.unknown.add(name)
        return self.rates.vectors.get(name, VectorsSize(points=0, width=0, gigabytes=1e-9))

    def _files(self, source: str) -> float:
        kind = self.plan.study.registry.sources[source].kind
        if kind == "model":
            return GIGA * self._model(source).gigabytes
        return GIGA * (self._vectors(source).gigabytes if kind == "vectors" else 0.02)

    @staticmethod
    def _loaded(model: ModelSize) -> float:
        """A model in memory, with what a batch takes."""
        return 2 * GIGA * model.gigabytes + GIGA / 2


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


def totals(estimate: Estimate) -> dict[str, Total]:
    """What a study takes, per stage and in all, if nothing of it is there yet."""
    stages: dict[str, list[Cost]] = {}
    for stem in estimate.plan.stems():
        stages.setdefault(stem.split("/")[0] if "/" in stem else "report", []).append(
            estimate.of(stem)
        )
    found = {stage: _total(costs) for stage, costs in stages.items()}
    return found | {"all": _total([cost for costs in stages.values() for cost in costs])}


def _total(costs: list[Cost]) -> Total:
    gpu, cpu = ([c.seconds / 3600 for c in costs if c.gpu is on] for on in (True, False))
    disk, memory = sum(c.disk for c in costs) / GIGA, max(c.memory for c in costs) / GIGA
    return Total(len(costs), sum(gpu), sum(cpu), max(gpu + cpu), disk, memory)
