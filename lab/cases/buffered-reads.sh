# The record of buffered reads has the queue depth at the disk, with a finding where it is below the requested one.
# kernels: 6.1 7
# when: all
disk=$(disk 1)
set -- --filename="$disk" --rw=randread --bs=4k --iodepth=32 --number_ios=3000 --output-format=json

# weighted: the kernel's time of all I/Os of the disk added up, in milliseconds.
weighted() { awk '{ print $11 }' "/sys/block/${disk#/dev/}/stat"; }

for direct in 1 0; do
    before=$(weighted)
    fathom run --name=direct "$@" --direct=$direct --record=direct-$direct >out.json
    record=direct-$direct/record.json
    after=$(weighted)
    is $record '.jobs[0].dirs.read.counts | "\(.ios) \(.errors)"' '3000 0'
    is $record ".jobs[0].granted.direct == ($direct == 1)" true
    # Before it starts, fathom checks the disk's contents.
    seen=$(value $record '.disks[0].weighted_ms')
    check "the record has the kernel's $seen of $((after - before)) ms" \
        [ $seen -le $((after - before)) ] && [ $((after - before - seen)) -le $((seen / 4 + 50)) ]
    # The requested depth is that of the whole run.
    is $record '(.jobs[0].runtime_ns / 1e6 * 32 * 0.5 > .disks[0].weighted_ms)
        == any(.findings[]; .rule == "device-depth")' true
    value $record '"the disk saw \(.disks[0].weighted_ms * 1e6 / .jobs[0].runtime_ns) on average"'
done
keep direct-*
