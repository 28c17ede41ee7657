# `fathom watch` counts requests that io_uring hands to io-wq.
# kernels: all
set -- --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --number_ios=2000 --no-record --output-format=json

# Each request with force_async goes to io-wq.
fathom watch --interval=50ms -o async -- fathom run --name=async "$@" --iodepth=8 --force_async=1 >async.json
is async.json '.jobs[0].read.total_ios' 2000
samples=async/samples.ndjson
check "2000 requests were handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max' $samples)" -ge 2000 ]

# Without it none do.
fathom watch --interval=50ms -o plain -- fathom run --name=plain "$@" --iodepth=8 >plain.json
check "no request was handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max' plain/samples.ndjson)" -eq 0 ]

keep async plain
