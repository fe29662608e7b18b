"""finetune: encoders that are fine-tuned on tasks, with and without a penalty on their geometry.
Needs: prepared data sets and a fetched model. Gives: results/finetune/{paper}/{run}/seed{seed}.json
with facts; tables of .steps, .layers and .points."""


rule finetune_model:
    """One fine-tuned model and its geometry (Rudman & Eickhoff 2024; Rajaee & Sheikhi 2020)."""
    input:
        unpack(inputs("finetune/{paper}/{run}/seed{seed}")),
    output:
        run="results/finetune/{paper}/{run}/seed{seed}.json",
        steps="results/finetune/{paper}/{run}/seed{seed}.steps.parquet",
        layers="results/finetune/{paper}/{run}/seed{seed}.layers.parquet",
        points="results/finetune/{paper}/{run}/seed{seed}.points.parquet",
        record="results/finetune/{paper}/{run}/seed{seed}.record.json",
    log:
        "results/logs/finetune/{paper}/{run}/seed{seed}.log",
    conda:
        "../envs/finetune.yaml"
    threads: 1
    resources:
        gpu=gpus(),
        mem_mb=memory_for("finetune/{paper}/{run}/seed{seed}"),
        runtime=minutes_for("finetune/{paper}/{run}/seed{seed}"),
    params:
        spec=spec("finetune/{paper}/{run}/seed{seed}"),
        code=code("finetune_model"),
    script:
        "../scripts/finetune/finetune_model.py"
