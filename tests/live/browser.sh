# Sees to it that a Chromium is on this machine: the tests drive the system's, and download none.
for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing chromium"
    log=$(mktemp)
    if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    tail -n 20 "$log" >&2
fi
echo "The browser tests need Chromium. Install it (on Debian or Ubuntu: sudo apt-get install chromium), or name yours in CHROMIUM." >&2
exit 1
