"""Jobs with faults, beside the study's own and by its helpers and profile.

Tests put this file at the top of a checkout.
"""

import sys


include: "Snakefile"


# Each run of a job leaves a line here: how often it was really done.
RAN = 'echo "${{SLURM_JOB_ID:-}}" >> ran-$(basename {output}); '


rule hungry:
    """Needs more memory than it gets at first, and less than twice that."""
    output:
        "results/faults/hungry",
    resources:
        mem_mb=doubles_with_attempt(1000),
        runtime=10,
    params:
        python=sys.executable,
    shell:
        RAN
        + "{params.python} -c 'import time; x = b\"x\" * (1200 << 20); time.sleep(4)'; "
        "touch {output}"


rule failing:
    """Always fails, and says so in its log."""
    output:
        "results/faults/failing",
    log:
        "results/logs/faults/failing.log",
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        RAN + "echo 'nothing can be done' > {log}; exit 3"


rule sees:
    """Writes down the GPUs that it sees, and whether the hub's clients are switched off."""
    output:
        "results/faults/sees-{n}",
    wildcard_constraints:
        n="[12]",
    resources:
        gpu=lambda wildcards: int(wildcards.n),
        mem_mb=1000,
        runtime=10,
    shell:
        'echo "$CUDA_VISIBLE_DEVICES $HF_HUB_OFFLINE $TRANSFORMERS_OFFLINE $HF_DATASETS_OFFLINE" '
        "> {output}; sleep 3"


rule step:
    """Waits until it may go on."""
    output:
        "results/faults/step-{name}-{n}",
    wildcard_constraints:
        name="[a-z]+",
        n=r"\d",
    resources:
        gpu=1,
        mem_mb=1000,
        runtime=90,
    shell:
        RAN
        + "for i in $(seq 3600); do if [ -e go ]; then break; fi; sleep 1; done; touch {output}"


rule steps:
    """Waits for them."""
    input:
        [f"results/faults/step-{{name}}-{n}" for n in range(4)],
    output:
        "results/faults/steps-{name}",
    wildcard_constraints:
        name="[a-z]+",
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        RAN + "touch {output}"
