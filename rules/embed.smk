"""embed: a vector for each text of a data set, or for each token. Needs: a prepared data set, and a
fetched model or vectors. Gives: results/embed/{dataset}/{model}.safetensors, with the array
`vectors` (n, d), float32; results/embed/{dataset}/tokens/{model}/, a file per layer and a table of
tokens (replication/embed/layers.py); results/fetch/{source}/ of a model with random weights.
"""


rule initialize_model:
    """A model with the architecture of another one and random weights: a control for
    pre-training.
    """
    input:
        unpack(inputs("fetch/{source}")),
    output:
        source=directory("results/fetch/{source}"),
        record="results/fetch/{source}.record.json",
    log:
        "results/logs/fetch/{source}.log",
    wildcard_constraints:
        source=alternatives(CONTROLS),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(6000),
        runtime=doubles_with_attempt(30),
    params:
        spec=spec("fetch/{source}"),
        code=code("initialize_model"),
    script:
        "../scripts/embed/initialize_model.py"


rule embed_sentences:
    """Sentence embeddings of an encoder (Mickus et al. 2024, section 3.1)."""
    input:
        unpack(inputs("embed/{dataset}/{model}")),
    output:
        vectors="results/embed/{dataset}/{model}.safetensors",
        record="results/embed/{dataset}/{model}.record.json",
    log:
        "results/logs/embed/{dataset}/{model}.log",
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/torch.yaml"
    threads: 2
    resources:
        gpu=gpus(),
        mem_mb=memory_for("embed/{dataset}/{model}"),
        runtime=minutes_for("embed/{dataset}/{model}"),
    params:
        spec=spec("embed/{dataset}/{model}"),
        code=code("embed_sentences"),
    script:
        "../scripts/embed/embed_sentences.py"


rule embed_words:
    """Static vectors of words (Mickus et al. 2024, section 3.1)."""
    input:
        unpack(inputs("embed/{dataset}/{vectors}")),
    output:
        vectors="results/embed/{dataset}/{vectors}.safetensors",
        record="results/embed/{dataset}/{vectors}.record.json",
    log:
        "results/logs/embed/{dataset}/{vectors}.log",
    wildcard_constraints:
        vectors=alternatives(VECTORS),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("embed/{dataset}/{vectors}"),
        runtime=minutes_for("embed/{dataset}/{vectors}"),
    params:
        spec=spec("embed/{dataset}/{vectors}"),
        code=code("embed_words", "embed/{dataset}/{vectors}"),
    script:
        "../scripts/embed/embed_words.py"


rule embed_tokens:
    """Token vectors of selected layers (Rajaee & Pilehvar 2021, section 3; Cai et al. 2021, section
    3), streamed to disk."""
    input:
        unpack(inputs("embed/{dataset}/tokens/{model}")),
        shards=shards,
    output:
        tokens=directory("results/embed/{dataset}/tokens/{model}"),
        record="results/embed/{dataset}/tokens/{model}.record.json",
    log:
        "results/logs/embed/{dataset}/tokens/{model}.log",
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/torch.yaml"
    threads: 2
    resources:
        gpu=token_gpus,
        mem_mb=memory_for("embed/{dataset}/tokens/{model}"),
        runtime=minutes_for("embed/{dataset}/tokens/{model}"),
    params:
        spec=spec("embed/{dataset}/tokens/{model}"),
        code=code("embed_tokens"),
    script:
        "../scripts/embed/embed_tokens.py"


rule embed_shard:
    """One shard of the token vectors, if several jobs extract them."""
    input:
        unpack(inputs("embed/{dataset}/shards/{model}/{shard}")),
    output:
        parts=temp(directory("results/embed/{dataset}/shards/{model}/{shard}")),
        record="results/embed/{dataset}/shards/{model}/{shard}.record.json",
    log:
        "results/logs/embed/{dataset}/shards/{model}/{shard}.log",
    wildcard_constraints:
        shard=r"\d+-of-\d+",
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/torch.yaml"
    threads: 2
    resources:
        gpu=gpus(),
        mem_mb=memory_for("embed/{dataset}/shards/{model}/{shard}"),
        runtime=minutes_for("embed/{dataset}/shards/{model}/{shard}"),
    params:
        spec=spec("embed/{dataset}/shards/{model}/{shard}"),
        code=code("embed_shard"),
    script:
        "../scripts/embed/embed_shard.py"
