# A run's own threads are sampled at the ticks of their CPUs, and attributed to what the ticks interrupted.
# kernels: 7 6.1
# when: all
fathom run --name=ticked --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --iodepth=8 --time_based \
    --runtime=6 --record=ticked --output=page
keep ticked
jq -s '[.[].machine.stacks // empty]' ticked/samples.ndjson >seen
is seen 'length > 0 and all(.event == "tick")' true
count=$(value seen 'map(.counts[].count) | add')
check "$count samples" [ "$count" -ge 20 ]
is seen '[.[].counts[].comm] | all(. != "")' true

# The tick's own functions are not part of what the threads did.
jq -s '[.[].kernel | select(length > 0)]' ticked/stacks.ndjson >chains
is chains 'map(select(index("hrtimer_interrupt"))) | length' 0
is chains 'any(.[0] | startswith("entry_SYSCALL_64"))' true

# A sample stands for the ticks since the one before, five or so: together they are of the size of the time that the
# kernel says the worker took. The start is not watched, and emulated CPUs that wait for their host miss ticks.
sampled_ms=$(value seen 'map(.counts[].period) | add / 1e6 | floor')
worked_ms=$(value ticked/record.json '.jobs[0].usage | (.user_ns + .system_ns) / 1e6 | floor')
check "$sampled_ms ms were sampled of $worked_ms ms" \
    [ $((sampled_ms * 10)) -ge $((worked_ms * 2)) -a $((sampled_ms * 10)) -le $((worked_ms * 14)) ]
