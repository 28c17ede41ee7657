# Failing sectors count as errors, not I/Os: the run names the device, counts the errors and exits with 1.
# modules: dm_mod
bad_disk
bad=/dev/mapper/labbad

for rw in read write; do
    set -- --name=$rw --filename=$bad --rw=$rw --bs=64k --size=16m --direct=1 --iodepth=1 --output-format=json
    [ $rw = read ] || set -- "$@" --erase=$bad
    expect 1 fathom run "$@" --record=stop-$rw
    says err "$rw of 65536 bytes at offset 4194304 of $bad failed: Input/output error"
    says err dmesg
    is out '.jobs[0].error' 5
    is out ".jobs[0].$rw.total_ios" 65
    is stop-$rw/record.json ".jobs[0].dirs.$rw.counts.ios" 64
    is stop-$rw/record.json ".jobs[0].dirs.$rw.counts.errors" 1

    # As in fio, errors that are tolerated are no failure, and total_ios counts what was issued.
    expect 0 fathom run "$@" --continue_on_error=all --record=go-$rw --iodepth=8
    is out '[.fathom.findings[].rule] | contains(["io-errors"])' true
    is out ".jobs[0].$rw.total_ios" 256
    is out ".jobs[0].$rw.io_bytes" 15728640
    is out '.jobs[0].total_err' 16
    is go-$rw/record.json ".jobs[0].dirs.$rw.counts.errors" 16
    keep stop-$rw go-$rw
done
nothing_left
