# Prints the Python to make the environment with: $PYTHON, or the first that is new enough.
works() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if works "$name"; then
        if ! "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$name has no venv module. On Debian or Ubuntu: apt install python3-venv" >&2
            exit 1
        fi
        echo "$name"
        exit 0
    fi
done
found=$(python3 --version 2>/dev/null || echo "no python3")
echo "Python 3.11 or newer is needed (found: ${PYTHON:-$found}). Name one with: make setup PYTHON=/path/to/python3" >&2
exit 1
