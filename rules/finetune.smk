"""finetune: encoders that are fine-tuned on tasks, with and without a penalty on their geometry.
Needs: prepared data sets and a fetched model. Gives: results/finetune/{paper}/{run}/seed{seed}.json
with facts; tables of .steps, .layers and .points; the folder .model of a model that is kept.
"""


ruleorder: finetune_and_keep_model > finetune_model


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
        "../envs/torch.yaml"
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


rule finetune_and_keep_model:
    """The same, and the model itself in a folder that transformers loads (`keep_models`)."""
    input:
        unpack(inputs("finetune/{kept}/seed{seed}")),
    output:
        run="results/finetune/{kept}/seed{seed}.json",
        steps="results/finetune/{kept}/seed{seed}.steps.parquet",
        layers="results/finetune/{kept}/seed{seed}.layers.parquet",
        points="results/finetune/{kept}/seed{seed}.points.parquet",
        model=directory("results/finetune/{kept}/seed{seed}.model"),
        record="results/finetune/{kept}/seed{seed}.record.json",
    log:
        "results/logs/finetune/{kept}/seed{seed}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        gpu=gpus(),
        mem_mb=memory_for("finetune/{kept}/seed{seed}"),
        runtime=minutes_for("finetune/{kept}/seed{seed}"),
    params:
        spec=spec("finetune/{kept}/seed{seed}"),
        code=code("finetune_and_keep_model", "finetune/{kept}/seed{seed}"),
    script:
        "../scripts/finetune/finetune_model.py"
