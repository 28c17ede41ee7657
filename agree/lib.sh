# Helpers for the cases of `cargo xtask agree`. A case obtains the same figures from fathom ($FATHOM) and from another
# program, over the same $TIME seconds, in a directory of its own on a disk, and prints rows of cells separated by tabs:
#   figure, fathom's value, the other's, the difference allowed, that in percent [2], what docs say about a difference
# The first line of a case says what it compares. What it starts with `starts` ends with it.
. "$ROOT/../verdicts/lib.sh"
trap ends EXIT

# needs PROGRAM PACKAGE: fails where the program is missing.
needs() {
    command -v "$1" >/dev/null || {
        echo "$1 is missing; apt-get install $2" >&2
        return 1
    }
}

# sampling PID: waits until this fathom has begun to sample, by its thread.
sampling() {
    until cat "/proc/$1/task/"*/comm 2>/dev/null | grep -qx fathom-watch; do
        kill -0 "$1"
        sleep 0.01
    done
}

row() { (IFS=$'\t' && echo "$*"); }

# shown [TIMES]: of the rows read, those that differ and those of values above TIMES the difference allowed; with --all, all.
shown() {
    awk -F'\t' -v all="$ALL" -v times="${1-}" '{
        apart = $2 > $3 ? $2 - $3 : $3 - $2
        percent = $5 == "" ? 2 : $5
        if (all || times && ($2 > $3 ? $2 : $3) > times * $4 || apart > $4 && apart > percent / 100 * $3) print
    }'
}

# tracing COMMAND…: runs it where tracefs is mounted, which is needed for tracepoints and visible to it alone.
tracing() {
    unshare -m sh -c 'mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
        exec "$@"' sh "$@"
}

# traces SCRIPT: starts bpftrace, which ends itself, and waits until it traces; its JSON lines are in bpftrace.json.
traces() {
    needs bpftrace bpftrace
    tracing bpftrace -B none -f json -e "$1" >bpftrace.json &
    until [ -s bpftrace.json ]; do
        kill -0 $!
        sleep 0.05
    done
}

# traced NAME: an object of a script's maps as it printed them first. At its end, bpftrace prints what remains of them again.
traced() { jq -s --arg name "@$1" 'map(.data[$name]? // empty) | first // {}' bpftrace.json; }
