"""finetune: encoders that are fine-tuned on tasks, with and without a penalty on their geometry.
Needs: prepared data sets and a fetched model. Gives: results/finetune/{paper}/{run}/seed{seed}.json
with facts; tables of .steps, .layers and .points; the folder .model of a model that is kept. One
job makes one model, or those of all seeds of a run (`compute.seeds_in_one_job`).
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
        gpu_mem_mb=gpu_memory_for("finetune/{paper}/{run}/seed{seed}"),
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
        gpu_mem_mb=gpu_memory_for("finetune/{kept}/seed{seed}"),
        mem_mb=memory_for("finetune/{kept}/seed{seed}"),
        runtime=minutes_for("finetune/{kept}/seed{seed}"),
    params:
        spec=spec("finetune/{kept}/seed{seed}"),
        code=code("finetune_and_keep_model", model_writer),
    script:
        "../scripts/finetune/finetune_model.py"


# Models that are kept are always made one by one.
for paper in papers_with_seeds() if CONFIG.compute.seeds_in_one_job else []:
    patches.prefer_rule(workflow, f"finetune_seeds_{paper}", "finetune_model")

    rule:
        """Models of all seeds of a run, each with the record of a job of `finetune_model`."""
        name:
            f"finetune_seeds_{paper}"
        input:
            seeds_inputs(paper),
        output:
            run=seed_files(paper, ".json"),
            steps=seed_files(paper, ".steps.parquet"),
            layers=seed_files(paper, ".layers.parquet"),
            points=seed_files(paper, ".points.parquet"),
            record=seed_files(paper, ".record.json"),
        log:
            f"results/logs/finetune/{paper}/{{run}}.log",
        wildcard_constraints:
            run=not_kept(paper),
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            **seeds_resources(paper),
        params:
            spec=seeds_spec(paper),
            code=code("finetune_model"),
        script:
            "../scripts/finetune/finetune_model.py"
