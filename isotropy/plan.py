"""The plan: spec and inputs that a configuration gives each result. Rules hand them to jobs, the audit compares records."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isotropy.claims.spec import ClaimsSpec, read_claims
from isotropy.config import Study
from isotropy.embed.spec import EmbedSpec, LookUpSpec, ShardSpec, TokensSpec
from isotropy.figures.catalogue import FIGURES, FigureSpec
from isotropy.files import RESULTS
from isotropy.finetune.spec import FinetuneSpec, Training
from isotropy.finetune.study import Rudman2024
from isotropy.finetune.study import Run as FinetuneRun
from isotropy.geometry.spec import LayerSpec, StabilitySpec, VectorsSpec
from isotropy.geometry.study import Cai2021
from isotropy.optimize.spec import OptimizeSpec
from isotropy.optimize.study import Trajectory
from isotropy.prepare.spec import CorpusSpec, SentencesSpec
from isotropy.report.spec import PAPERS, PageSpec
from isotropy.similarity.spec import ClassifySpec, SimilaritySpec, TuningSpec
from isotropy.similarity.study import FineTuning, Measurement, Rajaee2021
from isotropy.sources.fetch import FetchSpec
from isotropy.spec import Spec
from isotropy.tables.catalogue import TABLES, VERDICTS, TableSpec, read_published

TUNING = "-tuning"
"""How the last part of the path of a choice of numbers ends."""


@dataclass(frozen=True)
class Plan:
    """What a study makes.

    Attributes:
        study: the validated configuration and its registry.
        project: the checkout, to which paths in the configuration are relative.
        folder: the folder of the run, to which paths in specs are relative.
    """

    study: Study
    project: Path
    folder: Path

    @cached_property
    def trajectories(self) -> dict[str, Trajectory]:
        """All trajectories of mickus2024, by name."""
        return self.study.config.mickus2024.trajectories()

    @property
    def rudman2024(self) -> Rudman2024:
        """What the study chooses of Rudman & Eickhoff 2024.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.rudman2024 is None:
            raise LookupError("the study leaves rudman2024 out")
        return self.study.config.rudman2024

    def fine_tuning(self, paper: str) -> Rudman2024 | FineTuning:
        """What the study chooses of a paper's fine-tuning.

        Raises:
            LookupError: the study leaves it out.
        """
        chosen = self.rudman2024 if paper == "rudman2024" else self.rajaee2021.finetuning if paper == "rajaee2021" else None
        if chosen is None:
            raise LookupError(f"the study has no fine-tuning of {paper}")
        return chosen

    @cached_property
    def fine_tuned(self) -> dict[tuple[str, str], FinetuneRun]:
        """All fine-tuned models, by paper and name, without their seeds."""
        found: dict[tuple[str, str], FinetuneRun] = {}
        for paper in ("rudman2024", "rajaee2021"):
            try:
                found |= {(paper, name): run for name, run in self.fine_tuning(paper).runs().items()}
            except LookupError:
                continue
        return found

    def training(self, paper: str, run: str) -> Training:
        """How a model is trained.

        Raises:
            LookupError: the study has no such run.
        """
        chosen = self.fine_tuning(paper)
        return chosen.tasks[self._run(paper, run).task].trained(chosen.training)

    @cached_property
    def _parts(self) -> set[str]:
        """Parts of papers that the study has."""
        parts: set[str] = {run.group for run in self.trajectories.values()}
        parts |= {name for name in ("rudman2024", "rajaee2021", "cai2021") if getattr(self.study.config, name) is not None}
        if self.study.config.rajaee2021 is not None:
            parts |= {f"rajaee2021-{part}" for part in self.rajaee2021.parts()}
        return parts

    @property
    def clouds(self) -> list[str]:
        """Point clouds of Figure 4 of rudman2024, by name."""
        return [] if self.study.config.rudman2024 is None else list(self.rudman2024.stability.clouds)

    @property
    def rajaee2021(self) -> Rajaee2021:
        """What the study chooses of Rajaee & Pilehvar 2021.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.rajaee2021 is None:
            raise LookupError("the study leaves rajaee2021 out")
        return self.study.config.rajaee2021

    @property
    def cai2021(self) -> Cai2021:
        """What the study chooses of Cai et al. 2021.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.cai2021 is None:
            raise LookupError("the study leaves cai2021 out")
        return self.study.config.cai2021

    @cached_property
    def measured(self) -> dict[str, Measurement]:
        """All measurements of rajaee2021, by the end of their path."""
        return {} if self.study.config.rajaee2021 is None else self.rajaee2021.measured()

    def spec(self, stem: str) -> Spec:
        """The spec of a result.

        Args:
            stem: path of the result below `results/`, without a suffix, such as `embed/polarity/all-MiniLM-L6-v2`.

        Raises:
            LookupError: the study has no such result.
        """
        match stem.split("/"):
            case ["fetch", source]:
                return self._fetch(source)
            case ["prepare", dataset]:
                return self.study.config.datasets[dataset]
            case ["embed", dataset, embedding]:
                return self._embed(dataset, embedding)
            case ["embed", dataset, "tokens", model]:
                return self._tokens(dataset, model)
            case ["embed", dataset, "shards", model, shard] if found := re.fullmatch(r"(\d+)-of-(\d+)", shard):
                return ShardSpec(tokens=self._tokens(dataset, model), shard=int(found[1]), shards=int(found[2]))
            case ["optimize", "mickus2024", setup, seed] if re.fullmatch(r"seed\d+", seed):
                return self._optimize(setup, int(seed.removeprefix("seed")))
            case ["finetune", paper, run, seed] if re.fullmatch(r"seed\d+", seed):
                return self._finetune(paper, run, int(seed.removeprefix("seed")))
            case ["geometry", "rudman2024", cloud]:
                return self._stability(cloud)
            case ["geometry", "cai2021", "vectors", vectors]:
                return self._vectors(vectors)
            case ["geometry", "cai2021", dataset, model, layer]:
                return self._layer(dataset, model, layer)
            case ["similarity", "rajaee2021", "classification", task, embedding]:
                return self._classify(task, embedding)
            case ["similarity", "rajaee2021", dataset, embedding, layer] if layer.endswith(TUNING):
                return self._tuning(dataset, embedding, layer.removesuffix(TUNING))
            case ["similarity", "rajaee2021", *path]:
                return self._similarity(self.measured["/".join(path)])
            case ["tables", paper, table]:
                return self._table(f"{paper}/{table}")
            case ["figures", paper, figure]:
                return FIGURES[f"{paper}/{figure}"]
            case ["claims"]:
                return self._claims()
            case ["index"]:
                return self._page()
        raise LookupError(f"no result {stem}")

    def inputs(self, stem: str) -> dict[str, list[str]]:
        """The inputs of a result, by the names that its rule gives them: paths relative to the folder of the run.

        Raises:
            LookupError: the study has no such result.
        """
        config = self.study.config
        match stem.split("/"):
            case ["fetch", _]:
                return {}
            case ["prepare", name]:
                dataset = config.datasets[name]
                if isinstance(dataset, SentencesSpec | CorpusSpec):
                    return {"source": [fetched(dataset.source)]}
                words = {"lexicon": [fetched(dataset.lexicon)], "vectors": [fetched(dataset.vectors)]}
                return words | ({"word_list": [fetched(dataset.word_list)]} if dataset.word_list else {})
            case ["embed", dataset, embedding]:
                role = "vectors_source" if self.study.registry.sources[embedding].kind == "vectors" else "model"
                return {"texts": [f"{RESULTS}/prepare/{dataset}.texts.parquet"], role: [fetched(embedding)]}
            case ["embed", dataset, "tokens", model] | ["embed", dataset, "shards", model, _]:
                return {"texts": [f"{RESULTS}/prepare/{dataset}.texts.parquet"], "model": [fetched(model)]}
            case ["optimize", "mickus2024", name, _]:
                setup = self.trajectories[name].setup
                return {
                    "dataset": [f"{RESULTS}/prepare/{setup.dataset}.items.parquet"],
                    "embeddings": [f"{RESULTS}/embed/{setup.dataset}/{setup.embedding}.safetensors"],
                }
            case ["finetune", paper, name, _]:
                return self._finetune_inputs(paper, self._run(paper, name))
            case ["geometry", "rudman2024", name]:
                cloud = self.rudman2024.stability.clouds[name]
                if cloud.kind == "normal":
                    return {}
                return {"embeddings": [f"{RESULTS}/embed/{cloud.dataset}/{cloud.embedding}.safetensors"]}
            case ["geometry", "cai2021", "vectors", vectors]:
                return {"vectors_source": [fetched(vectors)]}
            case ["geometry", "cai2021", dataset, model, _]:
                return {"tokens": [f"{RESULTS}/embed/{dataset}/tokens/{model}"]}
            case ["similarity", "rajaee2021", "classification", task, embedding]:
                return self._classify_inputs(task, embedding)
            case ["similarity", "rajaee2021", dataset, embedding, layer] if layer.endswith(TUNING):
                return self._cloud_inputs(dataset, embedding)
            case ["similarity", "rajaee2021", *path]:
                return self._similarity_inputs(self.measured["/".join(path)])
            case ["tables", paper, table]:
                return self._table_inputs(TABLES[f"{paper}/{table}"])
            case ["figures", paper, figure]:
                return {"tables": [table_file(t) for t in FIGURES[f"{paper}/{figure}"].tables]}
            case ["claims"]:
                return {"tables": self.table_files()}
            case ["index"]:
                return {"results": [*self.figure_files(), table_file("claims"), *self.table_files()]}
        raise LookupError(f"no result {stem}")

    def stems(self, wanted: str = "index") -> list[str]:
        """All that a result is made from, itself included: what is needed before what needs it."""
        found: dict[str, None] = {}
        waiting = [(wanted, False)]
        while waiting:
            stem, ready = waiting.pop()
            if ready:
                found[stem] = None
            elif stem not in found:
                waiting.append((stem, True))
                needed = {_stem(path): None for paths in self.inputs(stem).values() for path in paths}
                waiting += [(one, False) for one in self._shards(stem) + list(needed)]
        return list(found)

    def _shards(self, stem: str) -> list[str]:
        """Shares of token vectors that are read beside the inputs."""
        n = self.study.config.compute.shards
        match stem.split("/"):
            case ["embed", dataset, "tokens", model] if n > 1:
                return [f"embed/{dataset}/shards/{model}/{k}-of-{n}" for k in range(1, n + 1)]
        return []

    def table_files(self) -> list[str]:
        """Parquet files of all tables."""
        return [table_file(name) for name, entry in TABLES.items() if self.attempted(entry)]

    def figure_files(self) -> list[str]:
        """One file of each figure."""
        return [f"{RESULTS}/figures/{name}.png" for name, entry in FIGURES.items() if self.attempted(entry)]

    def attempted(self, entry: TableSpec | FigureSpec) -> bool:
        """Whether the study has what a table or figure shows: parts of a paper may be left out of the configuration."""
        return entry.needs is None or entry.needs in self._parts

    def _fetch(self, name: str) -> FetchSpec:
        """Mirror and trust are named only where they can make a difference."""
        source, sources = self.study.registry.sources[name], self.study.config.sources
        usable = source.usable(sources.order, mirror=sources.mirror is not None)
        mirror = sources.mirror if any(o.type == "mirror" for o in usable) else None
        return FetchSpec(
            id=name,
            source=source,
            order=sources.order,
            mirror=None if mirror is None else os.path.relpath(self.project / mirror, self.folder),
            trust_on_first_use=sources.trust_on_first_use and any(not source.pins(origin) for origin in source.origins),
        )

    def _embed(self, dataset: str, embedding: str) -> EmbedSpec | LookUpSpec:
        source = self.study.registry.sources[embedding]
        if source.kind == "vectors":
            return LookUpSpec(dataset=dataset, vectors=embedding)
        if source.encoder is None:
            raise LookupError(f"{embedding} is a {source.kind}: it makes no embeddings")
        compute = self.study.config.compute.of_encoders()
        return EmbedSpec(dataset=dataset, model=embedding, encoder=source.encoder, **compute)

    def _optimize(self, name: str, seed: int) -> OptimizeSpec:
        run = self.trajectories[name]
        return OptimizeSpec(
            paper="mickus2024",
            setup=name,
            group=run.group,
            base=run.base,
            variant=run.variant,
            seed=seed,
            updates=run.updates,
            learning_rate=run.learning_rate,
            measure=run.measure,
            device=self.study.config.compute.device,
            **run.setup.model_dump(),
        )

    def _run(self, paper: str, name: str) -> FinetuneRun:
        if (paper, name) not in self.fine_tuned:
            raise LookupError(f"the study has no fine-tuned model {name!r} of {paper}")
        return self.fine_tuned[paper, name]

    def _finetune(self, paper: str, name: str, seed: int) -> FinetuneSpec:
        run, chosen = self._run(paper, name), self.fine_tuning(paper)
        task = chosen.tasks[run.task]
        return FinetuneSpec(
            paper=paper,
            run=name,
            task=run.task,
            train=task.train,
            validation=task.validation,
            metric=task.metric,
            model=run.model,
            method=run.method,
            training=task.trained(chosen.training),
            measure=chosen.measure,
            seed=seed,
            device=self.study.config.compute.device,
        )

    def _finetune_inputs(self, paper: str, run: FinetuneRun) -> dict[str, list[str]]:
        task = self.fine_tuning(paper).tasks[run.task]
        return _sides({"train": task.train, "validation": task.validation}) | {"model": [fetched(run.model)]}

    def _stability(self, name: str) -> StabilitySpec:
        chosen = self.rudman2024.stability
        return StabilitySpec(paper="rudman2024", name=name, cloud=chosen.clouds[name], **chosen.model_dump(exclude={"clouds"}))

    def _tokens(self, dataset: str, model: str) -> TokensSpec:
        encoder = self.study.registry.sources[model].encoder
        stream = isinstance(self.study.config.datasets[dataset], CorpusSpec)
        if stream:
            layers = [layer for corpus, name, layer in self.cai2021.measured() if (corpus, name) == (dataset, model)]
        else:
            layers = self.rajaee2021.layers(dataset, model)
        if encoder is None or not layers:
            raise LookupError(f"the study reads no layers of {model} for {dataset}")
        return TokensSpec(
            dataset=dataset,
            model=model,
            encoder=encoder,
            layers=layers,
            window=self.cai2021.window if stream else None,
            **self.study.config.compute.of_encoders(),
        )

    def _layer(self, dataset: str, model: str, layer: str) -> LayerSpec:
        paper, number = self.cai2021, int(layer.removeprefix("layer"))
        if (dataset, model, number) not in paper.measured():
            raise LookupError(f"the study does not measure {layer} of {model} on {dataset}")
        common = paper.model_dump(include={"window", "types", "clustering", "lid", "n_points", "seeds"})
        corpus = self.study.config.datasets[dataset].model_dump(include={"source", "empty"})
        own = {
            "paper": "cai2021",
            "dataset": dataset,
            "model": model,
            "layer": number,
            "dtype": self.study.config.compute.dtype,
        }
        return LayerSpec.model_validate(own | corpus | common)

    def _vectors(self, vectors: str) -> VectorsSpec:
        if vectors not in self.cai2021.vectors:
            raise LookupError(f"the study does not measure {vectors}")
        return VectorsSpec(paper="cai2021", vectors=vectors, lid=self.cai2021.lid, seeds=self.cai2021.seeds)

    def _similarity(self, one: Measurement) -> SimilaritySpec:
        paper, encoding = self.rajaee2021, self.rajaee2021.embeddings[one.embedding]
        return SimilaritySpec(
            paper="rajaee2021",
            drop=encoding.drop,
            repeat_texts=paper.repeat_texts,
            numbers=encoding.numbers,
            runs=paper.runs,
            clusterer=paper.clusterer,
            **one._asdict(),
        )

    def _tuning(self, dataset: str, embedding: str, layer: str) -> TuningSpec:
        paper = self.rajaee2021
        if paper.tuning is None or paper.tuning.dataset != dataset:
            raise LookupError(f"the study tunes nothing on {dataset}")
        return TuningSpec(
            paper="rajaee2021",
            embedding=embedding,
            layer=None if layer == "words" else int(layer.removeprefix("layer")),
            drop=paper.embeddings[embedding].drop,
            repeat_texts=paper.repeat_texts,
            runs=paper.runs,
            clusterer=paper.clusterer,
            **paper.tuning.model_dump(),
        )

    def _classify(self, task: str, embedding: str) -> ClassifySpec:
        chosen, encoder = self.rajaee2021.classification, self.study.registry.sources[embedding].encoder
        if chosen is None or task not in chosen.attempt or embedding not in chosen.embeddings or encoder is None:
            raise LookupError(f"the study has no classification of {task} with {embedding}")
        common = chosen.model_dump(include={"methods", "n_train", "max_length", "mlp", "seeds"})
        return ClassifySpec.model_validate(
            {
                "paper": "rajaee2021",
                "task": task,
                "embedding": embedding,
                "encoder": encoder,
                "clusterer": self.rajaee2021.clusterer,
                **chosen.tasks[task].model_dump(),
                **chosen.embeddings[embedding].model_dump(),
                **common,
                **self.study.config.compute.of_encoders(),
            }
        )

    def _classify_inputs(self, task: str, embedding: str) -> dict[str, list[str]]:
        assert self.rajaee2021.classification is not None
        sides = self.rajaee2021.classification.tasks[task].model_dump(include={"train", "validation"})
        return _sides(sides) | {"model": [fetched(embedding)]}

    def _similarity_inputs(self, one: Measurement) -> dict[str, list[str]]:
        inputs = self._cloud_inputs(one.dataset, one.embedding)
        if self._tuned(one):
            assert self.rajaee2021.tuning is not None
            tuned = one._replace(dataset=self.rajaee2021.tuning.dataset).stem
            inputs["tuning"] = [f"{RESULTS}/similarity/rajaee2021/{tuned}{TUNING}.json"]
        return inputs

    def _tuned(self, one: Measurement) -> bool:
        """Whether the numbers of a measurement are chosen by the tuning: those without clusters need none."""
        return self.rajaee2021.embeddings[one.embedding].numbers is None and len(one.methods) > 1

    def _cloud_inputs(self, dataset: str, embedding: str) -> dict[str, list[str]]:
        """Items, and token vectors, or texts and static vectors."""
        inputs = {"dataset": [f"{RESULTS}/prepare/{dataset}.items.parquet"]}
        if self.study.registry.sources[embedding].kind == "model":
            return inputs | {"tokens": [f"{RESULTS}/embed/{dataset}/tokens/{embedding}"]}
        return inputs | {
            "texts": [f"{RESULTS}/prepare/{dataset}.texts.parquet"],
            "vectors_source": [fetched(embedding)],
        }

    def _table_inputs(self, entry: TableSpec) -> dict[str, list[str]]:
        """Tables, and runs: in the configured order, then seeds."""
        inputs = {"tables": [table_file(name) for name in entry.tables]}
        if entry.runs is not None:
            stems = self._stems(entry.runs)
            inputs["runs"] = [f"{stem}.json" for stem in stems]
            inputs["rows"] = [f"{stem}.{entry.part}.parquet" if entry.part else f"{stem}.parquet" for stem in stems]
        return inputs

    def _stems(self, group: str) -> list[str]:
        """Results of a part of a paper, without suffixes."""
        if group in ("finetune", "clustered"):
            paper = "rudman2024" if group == "finetune" else "rajaee2021"
            seeds = self.fine_tuning(paper).seeds
            return [f"{RESULTS}/finetune/{paper}/{name}/seed{s}" for p, name in self.fine_tuned if p == paper for s in seeds]
        if group == "shown":
            return [f"{RESULTS}/finetune/rudman2024/{n}/seed{min(self.rudman2024.seeds)}" for n in self.rudman2024.shown()]
        if group == "tuning":
            assert self.rajaee2021.tuning is not None
            on = self.rajaee2021.tuning.dataset
            chosen = {m._replace(dataset=on).stem: None for m in self.measured.values() if self._tuned(m)}
            return [f"{RESULTS}/similarity/rajaee2021/{stem}{TUNING}" for stem in chosen]
        if group == "classification":
            assert self.rajaee2021.classification is not None
            pairs = [(t, e) for t in self.rajaee2021.classification.attempt for e in self.rajaee2021.classification.embeddings]
            return [f"{RESULTS}/similarity/rajaee2021/classification/{task}/{embedding}" for task, embedding in pairs]
        if group == "similarity":
            return [f"{RESULTS}/similarity/rajaee2021/{stem}" for stem in self.measured]
        if group == "pictured":
            return [f"{RESULTS}/similarity/rajaee2021/{stem}" for stem, one in self.measured.items() if one.pictured]
        if group == "layers":
            return [f"{RESULTS}/geometry/cai2021/{d}/{model}/layer{n}" for d, model, n in self.cai2021.measured()]
        if group == "vectors":
            return [f"{RESULTS}/geometry/cai2021/vectors/{name}" for name in self.cai2021.vectors]
        if group == "stability":
            return [f"{RESULTS}/geometry/rudman2024/{name}" for name in self.rudman2024.stability.clouds]
        return [
            f"{RESULTS}/optimize/mickus2024/{name}/seed{seed}"
            for name, run in self.trajectories.items()
            if run.group == group
            for seed in run.seeds
        ]

    def _table(self, name: str) -> TableSpec:
        """With the numbers that its paper prints, if it shows them."""
        entry = TABLES[name]
        if entry.published is None:
            return entry
        published = read_published(self.project / "published" / f"{name.split('/')[0]}.csv")
        return entry.model_copy(update={"published": published})

    def _claims(self) -> ClaimsSpec:
        """Every claim of the papers, with the published numbers that they refer to."""
        return ClaimsSpec(
            study=self.study.config.study,
            claims=read_claims(self.project / "published"),
            attempted=[name for name, entry in TABLES.items() if self.attempted(entry)],
        )

    def _page(self) -> PageSpec:
        return PageSpec(
            study=self.study.config.study,
            papers=PAPERS,
            figures=[entry for entry in FIGURES.values() if self.attempted(entry)],
            tables=[VERDICTS, *(entry for entry in TABLES.values() if self.attempted(entry))],
        )


def fetched(name: str) -> str:
    """Folder of a fetched source."""
    return f"{RESULTS}/fetch/{name}"


def table_file(name: str) -> str:
    """Parquet file of a table; `claims` is the table of verdicts."""
    return f"{RESULTS}/claims.parquet" if name == "claims" else f"{RESULTS}/tables/{name}.parquet"


def _stem(path: str) -> str:
    """The result that a file belongs to."""
    folder, _, name = path.removeprefix(f"{RESULTS}/").rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")


def _sides(datasets: dict[str, str]) -> dict[str, list[str]]:
    """Texts and items of a task's data sets, by role."""
    return {
        f"{role}_{table}": [f"{RESULTS}/prepare/{dataset}.{table}.parquet"]
        for role, dataset in datasets.items()
        for table in ("texts", "items")
    }
