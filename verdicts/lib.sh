# Helpers for cases; see README.md. $DIR is the case's own directory, on a disk, and the current one.
prepare() { :; }
clean() { :; }

# filled FILE SIZE: a file of incompressible data, on disk and not in the page cache.
filled() {
    head -c "$(numfmt --from=iec "${2^^}")" /dev/urandom >"$1"
    cold "$1"
}

# cold FILE…: writes the files back and drops them from the page cache.
cold() {
    for file; do
        dd if="$file" iflag=nocache count=0 conv=fsync,notrunc of="$file" status=none
    done
}

# starts COMMAND…: in the background, silent, until `ends`.
starts() {
    setsid "$@" </dev/null >>"$DIR/background.log" 2>&1 &
    echo $! >>"$DIR/background.pids"
}

# ends: ends what `starts` started, with all that it started in turn.
ends() {
    while read -r pid; do
        kill -CONT -- "-$pid" 2>/dev/null || :
        kill -TERM -- "-$pid" 2>/dev/null || :
        for _ in $(seq 50); do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$pid" 2>/dev/null || :
    done <"$DIR/background.pids"
    rm -f "$DIR/background.pids"
}

# until_ok COMMAND…: waits until it succeeds, for at most 20 s.
until_ok() {
    for _ in $(seq 200); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "$*: does not succeed" >&2
    return 1
}
