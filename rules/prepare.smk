"""prepare: canonical tables of data sets. Needs: fetched sources.
Gives: results/prepare/{dataset}.parquet, with columns text and labels."""


rule prepare_sentences:
    """Labelled sentences (mickus2024, section 3.1, setups i and ii)."""
    input:
        source=dataset_source,
    output:
        dataset="results/prepare/{dataset}.parquet",
        record="results/prepare/{dataset}.record.json",
    log:
        "results/logs/prepare/{dataset}.log",
    benchmark:
        "results/logs/prepare/{dataset}.jsonl"
    wildcard_constraints:
        dataset=alternatives(SENTENCES),
    conda:
        "../envs/prepare.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=dataset_spec,
        code=code("prepare_sentences"),
    script:
        "../scripts/prepare/prepare_sentences.py"


rule prepare_supersenses:
    """Words with their WordNet noun supersenses (mickus2024, section 3.1, setup iv)."""
    input:
        lexicon=dataset_lexicon,
        vectors=dataset_vectors,
    output:
        dataset="results/prepare/{dataset}.parquet",
        record="results/prepare/{dataset}.record.json",
    log:
        "results/logs/prepare/{dataset}.log",
    benchmark:
        "results/logs/prepare/{dataset}.jsonl"
    wildcard_constraints:
        dataset=alternatives(SUPERSENSES),
    conda:
        "../envs/prepare.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=dataset_spec,
        code=code("prepare_supersenses"),
    script:
        "../scripts/prepare/prepare_supersenses.py"
