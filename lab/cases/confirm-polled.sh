# Where the CPU of the interrupts is the verdict, polling is its test, on devices with polled queues alone.
# kernels: 7 6.1
# when: all
reload nvme poll_queues=1

# confirm DEVICE: tests that verdict of a run of the device, on which another one may have been found.
confirm() {
    rm -rf run
    fathom run --name=reads --filename="$1" --rw=randread --bs=4k --direct=1 --iodepth=4 --number_ios=200 \
        --record=run >first
    jq '.findings = [{ rule: "interrupt-cpu", class: "limiter", severity: "info", rank: 1, share_explained: 0.9,
        subject: { kind: "cpus", cpus: [0] }, summary: "One CPU.", evidence: [], next_step: null }]' run/record.json >new
    mv new run/record.json
    fathom confirm run >page
    sed -n '/Limited by/,/^$/p' page
}

polled=$(null_blk polled poll_queues=1 irqmode=2 completion_nsec=100000)
for device in "$(disk 0)" "$polled"; do
    confirm "$device"
    # Time may run out before there are enough rounds, but a window that cannot poll would be the reason.
    is run/record.json '.findings[0].confirmed.experiment' "polling for completions (hipri)"
    is run/record.json '.findings[0].confirmed.verdict | . == "confirmed" or . == "refuted" or . == "inconclusive"' true
done

plain=$(null_blk plain poll_queues=0)
confirm "$plain"
is run/record.json '.findings[0].confirmed.verdict' not_tested
says page "${plain#/dev/} has no queues for polled I/O"
