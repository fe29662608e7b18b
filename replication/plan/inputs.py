"""fetch, prepare, embed: from sources to vectors."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from replication.context import prepared_table, source_folder
from replication.embed.spec import EmbedSpec, InitializeSpec, LookUpSpec, ShardSpec, TokensSpec
from replication.prepare.spec import CorpusSpec, SentencesSpec
from replication.sources.fetch import FetchSpec, mirror_digests
from replication.spec import Spec

if TYPE_CHECKING:
    from replication.plan.plan import Plan


def spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a source, data set or file of vectors."""
    match path:
        case ["fetch", source]:
            return _fetch(plan, source)
        case ["prepare", dataset]:
            return plan.context.datasets[dataset]
        case ["embed", dataset, embedding]:
            return _embed(plan, dataset, embedding)
        case ["embed", dataset, "tokens", model]:
            return _tokens(plan, dataset, model)
        case ["embed", dataset, "shards", model, shard] if found := re.fullmatch(
            r"(\d+)-of-(\d+)", shard
        ):
            return ShardSpec(
                tokens=_tokens(plan, dataset, model), shard=int(found[1]), shards=int(found[2])
            )
    return None


def inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["fetch", source]:
            control = plan.context.registry[source].random_origin
            return {} if control is None else {"like": [source_folder(control.like)]}
        case ["prepare", name]:
            dataset = plan.context.datasets[name]
            if isinstance(dataset, SentencesSpec | CorpusSpec):
                return {"source": [source_folder(dataset.source)]}
            words = {
                "lexicon": [source_folder(dataset.lexicon)],
                "vectors": [source_folder(dataset.vectors)],
            }
            return words | (
                {"word_list": [source_folder(dataset.word_list)]} if dataset.word_list else {}
            )
        case ["embed", dataset, embedding]:
            role = (
                "vectors_source" if plan.context.registry[embedding].kind == "vectors" else "model"
            )
            return {"texts": [prepared_table(dataset, "texts")], role: [source_folder(embedding)]}
        case ["embed", dataset, "tokens", model] | ["embed", dataset, "shards", model, _]:
            return {"texts": [prepared_table(dataset, "texts")], "model": [source_folder(model)]}
    return None


def _fetch(plan: Plan, name: str) -> FetchSpec | InitializeSpec:
    """Mirror and trust are named only where they can make a difference."""
    source, sources = plan.context.registry[name], plan.study.config.sources
    if source.random_origin is not None:
        return InitializeSpec(id=name, source=source, origin=source.random_origin)
    usable = source.usable_origins(sources.order, mirror=sources.mirror is not None)
    portable, folders = source.split_folders()
    mirror = sources.mirror if any(o.type == "mirror" for o in usable) else None
    return FetchSpec(
        id=name,
        source=portable,
        folders=folders,
        order=sources.order,
        mirror=None if mirror is None else os.path.relpath(plan.project / mirror, plan.folder),
        local=mirror_digests(source, usable, plan.project / mirror)
        if mirror is not None and sources.trust_on_first_use
        else {},
        trust_on_first_use=sources.trust_on_first_use
        and any(not source.can_verify(origin) for origin in source.origins),
    )


def _embed(plan: Plan, dataset: str, embedding: str) -> EmbedSpec | LookUpSpec:
    source = plan.context.registry[embedding]
    if source.kind == "vectors":
        return LookUpSpec(dataset=dataset, vectors=embedding)
    if source.encoder is None:
        raise LookupError(f"{embedding} is a {source.kind}: it makes no embeddings")
    compute = plan.context.compute.for_encoders()
    return EmbedSpec(dataset=dataset, model=embedding, encoder=source.encoder, **compute)


def _tokens(plan: Plan, dataset: str, model: str) -> TokensSpec:
    encoder, wanted = plan.context.registry[model].encoder, plan.tokens.get((dataset, model))
    if encoder is None or wanted is None:
        raise LookupError(f"the study reads no layers of {model} for {dataset}")
    return TokensSpec(
        dataset=dataset,
        model=model,
        encoder=encoder,
        layers=wanted.layers,
        window=wanted.window,
        **plan.context.compute.for_encoders(),
    )
