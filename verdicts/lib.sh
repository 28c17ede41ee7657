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

# fathom COMMAND OPTION…: in a case with `runs: fathom`, becomes fathom, whose result is judged.
fathom() { exec "$FATHOM" "$@" --no-record --json -o result.json; }

# run OPTION…: the same; 4 s of random 4 KiB reads of `data`, except for what the options change.
run() { fathom run --eta=never --time_based --runtime=4 --rw=randread --bs=4k --filename=data "$@"; }

# looped SIZE: a loop device on a file of that size, whose name `loop` has, until `unlooped`.
looped() {
    filled image "$1"
    losetup -f --show --direct-io=on image >loop
}

# queue KEY VALUE: a setting of the loop device's queue, until `unlooped`.
queue() {
    local file
    file=/sys/block/$(basename "$(cat loop)")/queue/$1
    sed 's/.*\[\(.*\)\].*/\1/' "$file" >"queue.$1"
    echo "$2" >"$file"
}

unlooped() {
    sleep 0.5
    local key
    for key in nr_requests max_sectors_kb wbt_lat_usec scheduler; do
        [ ! -e "queue.$key" ] || cat "queue.$key" >"/sys/block/$(basename "$(cat loop)")/queue/$key"
    done
    losetup -d "$(cat loop)"
}

# grouped CONTROLLER FILE VALUE: a cgroup with this limit, which `joined CONTROLLER` enters, until `ungrouped CONTROLLER`.
grouped() {
    mkdir -p "/sys/fs/cgroup/$1/fathom-verdicts"
    echo "$3" >"/sys/fs/cgroup/$1/fathom-verdicts/$2"
}
joined() { echo $$ >"/sys/fs/cgroup/$1/fathom-verdicts/cgroup.procs"; }
ungrouped() {
    sleep 0.5
    rmdir "/sys/fs/cgroup/$1/fathom-verdicts"
}

# disk_number: of the disk below $DIR, as cgroups name it.
disk_number() { lsblk -no MAJ:MIN "$(df --output=source "$DIR" | tail -1)" | tr -d ' '; }
