# Requests punted to io-wq are counted, and its workers reported, each with its owner thread.
# kernels: 7 6.1
# when: all
set -- --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --no-record --output-format=json

# Each request with force_async goes to io-wq.
fathom watch --each-io --interval=50ms --record async -- fathom run --name=async "$@" --iodepth=8 --force_async=1 \
    --number_ios=3000 >async.json
is async.json '.jobs[0].read.total_ios' 3000
samples=async/samples.ndjson
check "3000 requests were handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max' $samples)" -ge 3000 ]
check "it has workers" [ "$(jq -s 'map(.machine.rings.workers[]?.threads) | max' $samples)" -ge 1 ]
jq -s '[.[].machine.threads.active[]? | select(.comm | startswith("iou-wrk-"))]' $samples >workers
# It may be unknown for one that begins or ends.
is workers 'map(select(.works_for)) | length > 0 and all(.works_for == (.comm | ltrimstr("iou-wrk-") | tonumber))' true
is workers 'map(.pid) | unique | length' 1

# Without it none do.
fathom watch --each-io --interval=50ms --record plain -- fathom run --name=plain "$@" --iodepth=8 --number_ios=1000 \
    >plain.json
check "no request was handed to io-wq" \
    [ "$(jq -s 'map(.machine.rings.events.punted // empty) | max' plain/samples.ndjson)" -eq 0 ]

# All threads of the machine are read at once by a BPF program, where it is permitted.
fathom watch --duration 2s -i 500ms --record whole 2>err
jq -s '[.[].machine.threads | select(.samples > 0)]' whole/samples.ndjson >threads
is threads 'length > 0 and all(.at_once and .seen / .samples > 20)' true
mkdir own
chown 65534:65534 own
as_nobody fathom watch --duration 2s -i 500ms --record own/whole 2>err
jq -s '[.[].machine.threads | select(.samples > 0)]' own/whole/samples.ndjson >threads
is threads 'length > 0 and all(.at_once == null and .seen / .samples > 20)' true

keep async plain
