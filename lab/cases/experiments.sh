# Experiments on real drivers: settings are applied to each variant and restored, and conditions have results or a reason.
# when: all
node=$(null_blk 2 queue_mode=2 submit_queues=1)
name=${node#/dev/}

# short EXPERIMENT DISK…: runs it for a few seconds; 1 is the status where a variant cannot be measured here.
short() {
    experiment=$1
    shift
    status=0
    fathom try "$experiment" "$@" --duration=4 --window=100ms --sampling=off --json --no-record >"$experiment.json" 2>err || status=$?
    check "$experiment ends with 0 or 1" [ $status -le 1 ]
    is "$experiment.json" '.outcome' finished
    # In an emulated machine, time may run out before every condition was measured.
    is "$experiment.json" '[.report.conditions[] | select(.windows > 0 or .rejected != null)] | length > 0' true
    is "$experiment.json" '[.report.conditions[].errors] | add' 0
}

# The scheduler in use: trying one may load its module, which adds it to the list.
settings() { grep -o '\[.*\]' "/sys/block/$name/queue/scheduler" && cat "/sys/block/$name/queue/read_ahead_kb"; }
before=$(settings)
short scheduler "$node"
short readahead "$node"
short one-core-peak "$node"
short polled "$(disk 0)"
short all-disks "$(disk 0)" "$(disk 1)"
after=$(settings)
check "settings are as they were" [ "$before" = "$after" ]
fathom sweep --bs=4k,64k --iodepth=1..8 "$(disk 0)" --duration=4 --window=100ms --json --no-record >sweep.json 2>err
is sweep.json '.report.conditions | length' 8
