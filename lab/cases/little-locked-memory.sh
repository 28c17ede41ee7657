# With a memlock limit of 64 KiB a run works without registered buffers and reports it.
# when: all
ulimit -l 64
mkdir own
chown 65534:65534 own
set -- --name=job --filename=own/file --size=8m --rw=randread --bs=16k --iodepth=32 --output-format=json
expect 0 as_nobody fathom run "$@" --record=own/run
is out '.jobs[0].read.total_ios' 512
is own/run/record.json '[.findings[] | select(.rule == "memory-lock")] | length' 1
is own/run/record.json '.jobs[0].granted.fixed_buffers' false
keep own/run
nothing_left
