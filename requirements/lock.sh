# Writes requirements/GROUP.txt for each group named: exact versions with hashes, for every system and Python we serve.
# Each group is pinned to fit those before it, so that any of them can be installed together.
set -eu
uv=${UV:-.venv-lock/bin/uv}
upgrade=
if [ "$1" = --upgrade ]; then upgrade=--upgrade; shift; fi
before=
for group; do
    case $group in
        run) source=pyproject.toml ;;
        agents) source="pyproject.toml --extra agents --extra redis" ;;
        *) source="--group $group" ;;
    esac
    # shellcheck disable=SC2086
    "$uv" pip compile $source $before $upgrade --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --output-file "requirements/$group.txt" >/dev/null
    before="$before --constraint requirements/$group.txt"
done
