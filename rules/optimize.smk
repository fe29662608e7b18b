"""optimize: embeddings as trainable parameters of a classification task, with scores after each
update. Needs: a prepared data set and its embeddings. Gives:
results/optimize/{paper}/{setup}/seed{seed}.parquet, a row per step, and facts as JSON.
"""


# If several seeds are submitted as one SLURM job (profiles/slurm/config.yaml), one runs at a time.
resource_scopes:
    in_turn="local",


rule optimize_embeddings:
    """One trajectory of direct optimization (Mickus et al. 2024, section 3, Appendix A). One
    thread: seeds run in parallel."""
    input:
        unpack(inputs("optimize/{paper}/{setup}/seed{seed}")),
    output:
        trajectory="results/optimize/{paper}/{setup}/seed{seed}.parquet",
        run="results/optimize/{paper}/{setup}/seed{seed}.json",
        record="results/optimize/{paper}/{setup}/seed{seed}.record.json",
    log:
        "results/logs/optimize/{paper}/{setup}/seed{seed}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        gpu=gpus(),
        in_turn=1,
        mem_mb=memory_for("optimize/{paper}/{setup}/seed{seed}"),
        runtime=minutes_for("optimize/{paper}/{setup}/seed{seed}"),
    params:
        spec=spec("optimize/{paper}/{setup}/seed{seed}"),
        code=code("optimize_embeddings"),
    script:
        "../scripts/optimize/optimize_embeddings.py"
