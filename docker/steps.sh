#!/usr/bin/env bash
# The installation steps of the images, in one place: the Dockerfiles run them, and so do `make` and the tests.
#
#   steps.sh cli VENV     a virtual environment with privpipe for the embedded engine
#   steps.sh dask VENV    the same with Dask
#   steps.sh spark VENV   the same with PySpark
#   steps.sh java         a Java runtime of at least 17, through apt, unless there is one
#
# PYTHON names the interpreter of the environment (default: python3). pip takes its indexes from its own settings.
set -euo pipefail

readonly project="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

usage() {
    echo "usage: steps.sh cli|dask|spark VENV, or steps.sh java" >&2
    exit 2
}

install_into() {
    local venv="$1" extras="$2"
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "steps.sh: Python 3.11 or newer is needed; name one: PYTHON=python3.11 steps.sh ..." >&2
        exit 1
    }
    "${PYTHON:-python3}" -m venv "$venv"
    # A copy of the sources: the build leaves nothing behind in them, and they may be read-only.
    local sources
    sources="$(mktemp -d)"
    cp -R "$project/pyproject.toml" "$project/README.md" "$project/LICENSE" "$project/NOTICE" "$project/privpipe" "$sources"
    mkdir "$sources/pipelines"
    cp -R "$project/pipelines/adult" "$project/pipelines/refused" "$sources/pipelines"
    "$venv/bin/python" -m pip install --quiet --constraint "$project/constraints.txt" "$sources$extras"
    rm -rf "$sources"
    # The image needs no installer any more.
    "$venv/bin/python" -m pip uninstall --quiet --yes setuptools pip
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
    cli) [ $# -eq 2 ] || usage; install_into "$2" "" ;;
    dask) [ $# -eq 2 ] || usage; install_into "$2" "[dask]" ;;
    spark) [ $# -eq 2 ] || usage; install_into "$2" "[spark]" ;;
    java) [ $# -eq 1 ] || usage; install_java ;;
    *) usage ;;
esac
