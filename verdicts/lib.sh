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
        sync "$file"
        dd if="$file" iflag=nocache count=0 status=none
    done
}

# for_s SECONDS COMMAND…: becomes the command, which ends after that time. Unlike timeout(1), it is no second process.
for_s() { exec perl -e 'alarm shift; exec @ARGV or die' "$@"; }

# starts COMMAND…: in the background, silent, until `ends`.
starts() {
    setsid "$@" </dev/null >>"$DIR/background.log" 2>&1 &
    echo $! >>"$DIR/background.pids"
}

# ends: ends what `starts` started, the last one first.
ends() {
    while read -r pid; do
        kill -CONT -- "-$pid" 2>/dev/null || :
        kill -TERM -- "-$pid" 2>/dev/null || :
        for _ in $(seq 50); do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$pid" 2>/dev/null || :
    done < <(tac "$DIR/background.pids" 2>/dev/null)
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

# postgres_server OPTION…: starts a server in $DIR/pg that `ends` ends. pgbench and psql find it.
export PGHOST=$DIR/pg PGUSER=postgres PGDATABASE=postgres
postgres_server() {
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
    if [ ! -d pg ]; then
        install -d -o postgres pg
        setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/initdb" -N -A trust -D "$DIR/pg" >/dev/null
    fi
    starts setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$DIR/pg" -k "$DIR/pg" \
        -c listen_addresses= -c max_wal_size=4GB -c checkpoint_timeout=1h "$@"
    until_ok psql -c 'select 1'
}

# postgres_pid: the server's process id.
postgres_pid() { head -1 pg/postmaster.pid; }
