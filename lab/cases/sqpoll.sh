# With SQPOLL the kernel thread submits: few system calls; its wake-ups and CPU time are recorded.
# kernels: 6.1 7
set -- --filename="$(disk 0)" --erase="$(disk 0)" --bs=4k --direct=1 --iodepth=32 --iodepth_batch_complete_min=8 \
    --number_ios=6000 --output-format=json
for rw in randread randwrite; do
    fathom run --name=sqpoll "$@" --rw=$rw --sqthread_poll=1 --record=$rw >$rw.json
    record=$rw/record.json
    is $record '.jobs[0] | .dirs.read.counts.ios + .dirs.write.counts.ios' 6000
    is $record '.jobs[0] | .error == null' true
    is $record '.jobs[0].granted | any(.setup_flags[]; . == "SQPOLL")' true
    is $record '.jobs[0].granted | .fixed_buffers and .registered_files and (.fallbacks == [])' true
    is $record '[.disks[0].ios[] , .disks[0].merges[]] | add >= 6000' true
    # Each batch that was shown to the thread is counted, and together they are all I/Os.
    is $record '[.jobs[0].depth.submit[] | .[0] * .[1]] | add' 6000
    # A thread that is asked to wake and has not run yet is asked again.
    jq -c '.jobs[0] | .depth, .granted.sq_wakeups' $record
    is $record '.jobs[0] | (.depth.system_calls - .granted.sq_wakeups) * 4 < 6000' true
    is $record '.jobs[0] | .granted.sq_wakeups <= .depth.system_calls' true
    is $record '.jobs[0].usage.helper_ns > 0' true
done

# A thread that sleeps between two I/Os must be woken for each.
fathom run --name=sleepy --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --sqthread_poll=1 \
    --sqthread_poll_idle=1 --thinktime=20ms --number_ios=10 --record=sleepy --output-format=json >sleepy.json
is sleepy/record.json '.jobs[0].dirs.read.counts.ios' 10
is sleepy/record.json '.jobs[0].granted.sq_wakeups >= 8' true
keep randread randwrite sleepy
