# Without root, each command reports what is available, and names each unavailable source and its remedy.
# kernels: 6.1 7
# when: all
paranoid=/proc/sys/kernel/perf_event_paranoid
before=$(cat $paranoid)
mkdir own
chown 65534:65534 own
cd own
set -- fathom run --name=job --filename=file --size=4m --rw=randread --bs=4k --iodepth=8 --time_based --runtime=2 \
    --output-format=json
tracefs="/sys/kernel/tracing/events: Permission denied (os error 13); run as root"

# denied FILE: what nobody may see of the machine is in there, with what would allow it.
denied() {
    says "$1" "CPU samples: Permission denied (os error 13); run as root or with CAP_PERFMON"
    says "$1" "sysctl kernel.perf_event_paranoid="
    says "$1" "block layer events: $tracefs"
    says "$1" "io_uring events: $tracefs"
}
# seen RECORD: what there is without root.
seen() {
    jq -s 'last.machine' "$1/samples.ndjson" >last
    is last '(.system.cpus | length) > 0 and (.disks | length) > 0 and .threads.samples >= 0' true
    is last '[.stacks, .blocks, .rings.events, .submits] | all(. == null or . == [])' true
    check "$1: the user's own ring is seen" \
        [ "$(jq -s '[.[].machine.rings.rings[]?.pid] | unique | length' "$1/samples.ndjson")" = 1 ]
    jq -r '.sampling.missing[] | "\(.source): \(.reason); \(.remedy)"' "$1/record.json" >missing
    denied missing
}

echo 3 >$paranoid # Debian's; others have up to 2.
expect 0 as_nobody fathom top --format text -v -n 2 -i 200ms
check "lines come" [ "$(wc -l <out)" = 4 ]
denied err
says err "system calls, wait channels and files of"
says err "run as root or with CAP_SYS_PTRACE"
says err "/proc/1/fd: permission denied; run as root or as the user of these processes"
expect 0 as_nobody fathom top --json -n 1 -i 200ms
is out '.system.cpu.idle != null and (.disks | length) > 0 and .layers == null' true

expect 0 as_nobody fathom threads -a -v -t 1
says out "mean shown threads"
says out "CAP_SYS_PTRACE"
expect 1 as_nobody fathom stacks --duration 1s
says err "CPU samples: Permission denied"
says err "CAP_PERFMON"
expect 1 as_nobody fathom blocks --duration 1s
says err "block layer events: $tracefs"

expect 0 as_nobody fathom watch -i 100ms --record command -- "$@" --no-record --sampling=off
is out '.jobs[0].error' 0
seen command
says err "CPU samples"
for level in default full; do
    expect 0 as_nobody "$@" --sampling=$level --record=$level
    seen $level
done

# At 2, users may sample their own programs in user mode; Debian's kernel 7 refuses that too.
echo 2 >$paranoid
case $(uname -r) in
7.*) ;;
*)
    expect 0 as_nobody fathom stacks -F 499 -- "$@" --no-record --sampling=off
    says err "kernel functions"
    check "user mode is seen" grep -qE '[0-9] +user$' out
    check "the kernel is not" [ "$(grep -cE '[0-9] +kernel$' out)" = 0 ]
    ;;
esac
echo "$before" >$paranoid
