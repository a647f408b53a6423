#!/usr/bin/env bash
# The installation steps of the images, in one place: the Dockerfiles run them, and so do `make` and the tests.
#
#   steps.sh cli VENV     a virtual environment with privpipe for the embedded engine
#   steps.sh dask VENV    the same with Dask
#   steps.sh spark VENV   the same with PySpark
#   steps.sh stores VENV  the same with object stores, Delta, Iceberg, databases and other formats
#   steps.sh kernels VENV compile the kernels ahead of time, into VENV/kernels
#   steps.sh sbom VENV KIND  the bill of materials, VENV/sbom.cdx.json
#   steps.sh secrets FILE passwords for compose.stores.yaml
#   steps.sh java         a Java runtime of at least 17, through apt, unless there is one
#
# What is installed is in docker/locks, each file with its hashes (`make lock`). PYTHON names the interpreter of the
# environment (default: python3). pip takes its indexes from its own settings.
set -euo pipefail

readonly project="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Of no machine in particular: the image may run on another one than built it.
readonly cpu=generic

usage() {
    echo "usage: steps.sh cli|dask|spark|stores|kernels VENV, steps.sh sbom VENV KIND, steps.sh secrets FILE, or steps.sh java" >&2
    exit 2
}

install_into() {
    local venv="$1" kind="$2" python="${PYTHON:-python3}" work pip
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "steps.sh: Python 3.11 or newer is needed; name one: PYTHON=python3.11 steps.sh ..." >&2
        exit 1
    }
    work="$(mktemp -d)"
    # A copy of the sources: the build leaves nothing behind in them, and they may be read-only.
    mkdir -p "$work/sources/pipelines"
    for each in pyproject.toml README.md LICENSE NOTICE privpipe stubs; do
        cp -R "$project/$each" "$work/sources"
    done
    cp -R "$project/pipelines/adult" "$project/pipelines/refused" "$work/sources/pipelines"
    # What builds is locked too, and stays out of the image: wheels are made beside it.
    "$python" -m venv "$work/tools"
    pip="$work/tools/bin/python -m pip"
    $pip install --quiet --require-hashes --requirement "$project/docker/locks/build.lock"
    $pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheels" \
        --require-hashes --requirement "$project/docker/locks/$kind.lock"
    $pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheels" "$work/sources"
    "$python" -m venv --without-pip "$venv"
    $pip --python "$venv/bin/python" install --quiet --no-index --no-deps --no-compile "$work"/wheels/*.whl
    rm -rf "$work"
    # Layers of an image keep whole seconds, and the compiler asks when a source was changed.
    find "$venv/lib" -name '*.py' -exec touch -d @1700000000 {} +
    "$venv/bin/python" -m compileall -q "$venv/lib" || true # a few packages bring files of other Pythons
}

# Passwords for the services of compose.stores.yaml; a file that is there stays.
write_secrets() {
    [ ! -e "$1" ] || {
        echo "steps.sh: $1 exists already; it was left as it is" >&2
        exit 1
    }
    umask 077
    for name in POSTGRES_PASSWORD MINIO_PASSWORD; do
        printf '%s=%s\n' "$name" "$(od -An -N 24 -tx1 /dev/urandom | tr -d ' \n')"
    done >"$1"
}

java_major() {
    local java="java"
    [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
    "$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

install_java() {
    local found
    found="$(java_major || true)"
    if [ "${found:-0}" -ge 17 ]; then
        return 0
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null && as_root=(sudo -n)
    fi
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && [ "${#as_root[@]}" -eq 0 ]; }; then
        echo "Java 17 or newer is missing and cannot be installed from here (it takes apt and root)." >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /usr/share/man/man1 2>/dev/null || true # slim images lack it, and the package links into it
    ${as_root[@]+"${as_root[@]}"} apt-get update -qq
    ${as_root[@]+"${as_root[@]}"} apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
        ${as_root[@]+"${as_root[@]}"} apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless
}

case "${1:-}" in
    cli | dask | spark | stores) [ $# -eq 2 ] || usage; install_into "$2" "$1" ;;
    kernels) [ $# -eq 2 ] || usage; NUMBA_CPU_NAME="$cpu" "$2/bin/privpipe" warm "$2/kernels" ;;
    sbom) [ $# -eq 3 ] || usage; "$2/bin/python" "$project/docker/sbom.py" "$project/docker/locks/$3.lock" "$2/sbom.cdx.json" ;;
    secrets) [ $# -eq 2 ] || usage; write_secrets "$2" ;;
    java) [ $# -eq 1 ] || usage; install_java ;;
    *) usage ;;
esac
