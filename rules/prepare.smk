"""prepare: canonical tables of data sets. Needs: fetched sources. Gives:
results/prepare/{dataset}.texts.parquet with the distinct texts (for a corpus, its lines), and
{dataset}.items.parquet with the rows of each item's texts and its labels."""


rule prepare_sentences:
    """Labelled sentences or pairs (Mickus et al. 2024, section 3.1, setups i, ii; Appendix A)."""
    input:
        source=inputs("prepare/{dataset}", "source"),
    output:
        texts="results/prepare/{dataset}.texts.parquet",
        dataset="results/prepare/{dataset}.items.parquet",
        record="results/prepare/{dataset}.record.json",
    log:
        "results/logs/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(SENTENCES),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("prepare/{dataset}"),
        runtime=minutes_for("prepare/{dataset}"),
    params:
        spec=spec("prepare/{dataset}"),
        code=code("prepare_sentences", "prepare/{dataset}"),
    script:
        "../scripts/prepare/prepare_sentences.py"


rule prepare_words:
    """Words with labels from a lexicon (Mickus et al. 2024, section 3.1, setups iii and iv)."""
    input:
        unpack(inputs("prepare/{dataset}")),
    output:
        texts="results/prepare/{dataset}.texts.parquet",
        dataset="results/prepare/{dataset}.items.parquet",
        record="results/prepare/{dataset}.record.json",
    log:
        "results/logs/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(WORDS),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("prepare/{dataset}"),
        runtime=minutes_for("prepare/{dataset}"),
    params:
        spec=spec("prepare/{dataset}"),
        code=code("prepare_words", "prepare/{dataset}"),
    script:
        "../scripts/prepare/prepare_words.py"


rule prepare_corpus:
    """Lines of running text (Cai et al. 2021, section 2)."""
    input:
        source=inputs("prepare/{dataset}", "source"),
    output:
        texts="results/prepare/{dataset}.texts.parquet",
        record="results/prepare/{dataset}.record.json",
    log:
        "results/logs/prepare/{dataset}.log",
    wildcard_constraints:
        dataset=alternatives(CORPORA),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("prepare/{dataset}"),
        runtime=minutes_for("prepare/{dataset}"),
    params:
        spec=spec("prepare/{dataset}"),
        code=code("prepare_corpus", "prepare/{dataset}"),
    script:
        "../scripts/prepare/prepare_corpus.py"
