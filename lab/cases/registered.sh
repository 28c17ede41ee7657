# Buffers and files are registered; with too low a memlock limit the run continues without and reports it.
disk=$(disk 0)
set -- --filename="$disk" --erase="$disk" --bs=64k --direct=1 --iodepth=32 --size=16m --output-format=json
fathom run --name=both "$@" --rw=write --buffer_pattern=0xa5 --record=both >both.json
is both/record.json '.jobs[0].granted | .fixed_buffers and .registered_files and .registered_ring' true
is both/record.json '.jobs[0].granted.fallbacks == []' true

fathom run --name=neither "$@" --rw=read --fixedbufs=0 --registerfiles=0 --record=neither >neither.json
is neither/record.json '.jobs[0].granted | .fixed_buffers or .registered_files' false
is neither/record.json '.jobs[0].dirs.read.counts.ios' 256

# Without CAP_IPC_LOCK the limit holds for root, too.
ulimit -l 64
/usr/bin/setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
    fathom run --name=less "$@" --rw=randread --record=less >less.json
is less/record.json '.facts.host.memlock_limit_bytes' 65536
is less/record.json '.jobs[0].granted | [.fixed_buffers, .registered_files] | tostring' '[false,true]'
is less/record.json '.jobs[0].granted.fallbacks[0] | test("cannot register buffers.*RLIMIT_MEMLOCK.*2048 KiB")' true
is less/record.json '[.findings[].rule] | any(. == "memory-lock")' true
is less/record.json '.jobs[0].dirs.read.counts.ios' 256
is less/record.json '.jobs[0].error' null
check "what was written with registered buffers is there" \
    [ "$(head -c 16777216 "$disk" | tr -d '\245' | wc -c)" = 0 ]
keep both neither less
