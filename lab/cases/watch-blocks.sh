# Block layer events are counted: requests, unplugs by batch size, splits. Kernel 6.1 does not report unplugs of a
# queue without a scheduler.
# kernels: 6.12 7
# when: all
disk=$(disk 0)
name=${disk#/dev/}
# grown RECORD FILTER: what a counter of a watched record, which begins at 0, came to.
grown() { jq -s "[.[].machine.blocks | select(. != null) | $2] | max" "$1/samples.ndjson"; }
device=".devices[] | select(.name == \"$name\")"
set -- --name=job --filename="$disk" --rw=randread --bs=4k --direct=1 --no-record --sampling=off --output-format=json

# Batches of 7 and of 32 submit as many requests per unplug.
for batch in 7 32; do
    fathom watch --each-io --interval=50ms --record batch$batch -- fathom run "$@" --number_ios=$((100 * batch)) \
        --iodepth=$batch --iodepth_batch_submit=$batch --iodepth_batch_complete_min=$batch >out
    is out '.jobs[0].read.total_ios' $((100 * batch))
    # A few more are of opening the device.
    done=$(grown batch$batch "$device | .completed")
    check "each request was counted ($done)" [ "$done" -ge $((100 * batch)) -a "$done" -le $((100 * batch + 32)) ]
done
of_size() { grown "$1" "[.unplugs[] | select(.[0] >= $2 and .[0] <= $3) | .[1]] | add"; }
# A signal or clock check may flush a plug early.
check "batches of 7 are seen" [ "$(of_size batch7 5 7)" -ge 95 ]
check "and none of 32" [ "$(of_size batch7 32 63)" = 0 ]
check "batches of 32 are seen" [ "$(of_size batch32 32 63)" -ge 95 ]

# A read larger than the maximum request is split.
max_kib=$(cat "/sys/block/$name/queue/max_sectors_kb")
fathom watch --each-io --interval=50ms --record split -- fathom run "$@" --bs=$((4 * max_kib))k --number_ios=4 --iodepth=1 >out
check "each of 4 reads was split three times" [ "$(grown split "$device | .split")" -ge 12 ]

# A run's own device is traced even if many other devices had more I/Os before.
for busy in 0 1 2 3; do
    dd if="$(null_blk $busy)" of=/dev/null bs=64k 2>dd.err
done
node=$(null_blk own)
fathom run --name=job --filename="$node" --rw=randread --bs=4k --iodepth=8 --time_based --runtime=4 \
    --record=own >out
jq -s '[.[].machine.blocks | values] | last' own/samples.ndjson >own.blocks
is own.blocks '.devices[0].name' "${node#/dev/}"
is own.blocks '.devices | length' 4
is own/record.json '[.sampling.missing[] | select(.source | startswith("block layer events of"))] | length' 1
keep batch7 batch32 split own
