# `fathom watch` counts what io_uring did: requests handed to io-wq and its workers, SQPOLL's share of work.
# kernels: all
set -- --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --number_ios=2000 --no-record --output-format=json

# Each request with force_async goes to io-wq, whose workers belong to fathom.
fathom watch --interval=50ms -o async -- fathom run --name=async "$@" --iodepth=8 --force_async=1 >async.json
is async.json '.jobs[0].read.total_ios' 2000
samples=async/samples.ndjson
check "2000 requests were handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max - min' $samples)" -ge 2000 ]
check "its workers were seen" [ "$(jq -s 'map(.machine.rings.workers // [] | map(.threads) | add // 0) | max' $samples)" -gt 0 ]
check "the ring was seen" [ "$(jq -s 'map(.machine.rings.rings // [] | length) | max' $samples)" -gt 0 ]

# Without it none do.
fathom watch --interval=50ms -o plain -- fathom run --name=plain "$@" --iodepth=8 >plain.json
check "no request was handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max - min' plain/samples.ndjson)" -eq 0 ]

# A thread that polls is told, and from kernel 6.9 on how much of its time it worked.
fathom watch --interval=50ms -o polled -- fathom run --name=polled "$@" --iodepth=8 --sqthread_poll=1 \
    --rate_iops=1000 >polled.json
jq -s '[.[].machine.rings.rings // [] | .[] | .sq_poll // empty]' polled/samples.ndjson >threads
check "the SQPOLL thread was seen" [ "$(jq 'map(.thread) | unique | length' threads)" -eq 1 ]
case $(uname -r) in
6.1.*) is threads 'map(select(.total_us != null)) | length' 0 ;;
*)
    check "it worked, and less than all of its time" jq -e \
        'map(select(.total_us != null)) | last | .work_us > 0 and .work_us <= .total_us' threads
    ;;
esac
keep async plain polled
