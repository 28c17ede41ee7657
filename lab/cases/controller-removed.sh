# Removing a disk during a run ends it with an error and the results up to then.
# boot: own

# run_while NUMBER RW COMMAND: RW on disk NUMBER, for longer than this case may take, while the command takes it away.
run_while() {
    disk=$(disk "$1")
    fathom run --name=gone --filename="$disk" --erase="$disk" --rw="$2" --bs=4k --direct=1 --iodepth=8 --runtime=600 \
        --time_based --output-format=json --record="$3" >out 2>err &
    working "$3"
    "$3"
    status=0
    wait $! || status=$?
    check "the run ends with 1 ($status)" [ $status = 1 ]
    cat err
    says err "of $disk failed"
    says err "see \`dmesg\`"
    check "the job has an error" [ "$(value out '.jobs[0].error')" -gt 0 ]
    done=$(value out '.jobs[0] | .read.total_ios + .write.total_ios')
    check "what was done before is counted ($done)" [ "$done" -gt 0 ]
    is "$3/record.json" '.jobs[0].dirs | .read.counts.ios + .read.counts.errors + .write.counts.ios + .write.counts.errors' "$done"
    is "$3/record.json" '[.findings[].rule] | contains(["job-failed"])' true
    jq -c .elapsed_ns "$3/samples.ndjson"
    nothing_left
}

remove() { echo 1 >"/sys/class/nvme/$(controller 0)/device/remove"; }
pull() { host device_del nvme1; }
run_while 0 randread remove
run_while 1 randwrite pull
keep remove pull
