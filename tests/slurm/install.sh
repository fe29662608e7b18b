#!/usr/bin/env bash
# Debian's packages of SLURM, with its accounting, if they are missing; exit code 0 where all are
# there. None of their services is started: the tests start their own. Nothing is installed on a
# machine that has a SLURM from elsewhere.
set -euo pipefail
missing=()
for package in slurmctld slurmd slurm-client munge slurmdbd mariadb-server; do
  dpkg --status "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi
other() { echo "this machine has a SLURM of its own, or a part of one: ${missing[*]} are not installed beside it" >&2; exit 1; }
if [ -n "${SLURM_CONF:-}" ] || { [ -f /etc/slurm/slurm.conf ] && [ ! -L /etc/slurm/slurm.conf ]; }; then other; fi
for package in "${missing[@]}"; do
  case "$package" in slurm-client) program=sbatch ;; munge) program=munged ;; mariadb-server) program=mariadbd ;; *) program=$package ;; esac
  if command -v "$program" >/dev/null; then other; fi
done
if [ "$(id -u)" != 0 ]; then echo "not root: cannot install ${missing[*]}" >&2; exit 1; fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
