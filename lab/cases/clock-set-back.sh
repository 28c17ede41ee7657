# Setting the clock back by an hour during a run changes no duration, latency or count.
# when: all
before=$(date +%s)
fathom run --name=job --filename="$(disk 0)" --rw=randread --bs=4k --direct=1 --iodepth=4 --rate_iops=100 \
    --time_based --runtime=5 --output-format=json --record=run >out 2>err &
working run
date -s "@$(($(date +%s) - 3600))"
wait $!
date -s "@$(($(date +%s) + 3600))"
runtime=$(value out '.jobs[0].read.runtime')
check "it ran for 5 s ($runtime ms)" [ "$runtime" -ge 4900 ] && check "and no longer" [ "$runtime" -le 6000 ]
check "latencies are right" [ "$(value out '.jobs[0].read.lat_ns.max')" -le 3000000000 ]
ios=$(value out '.jobs[0].read.total_ios')
check "100 reads per second are some 500 ($ios)" [ "$ios" -ge 400 ] && check "and no more" [ "$ios" -le 505 ]
is run/record.json '.elapsed_ns / 1e9 | . >= 4.9 and . < 15' true
check "it began when it did" [ "$(value run/record.json '.started_unix_ns / 1e9 | floor')" -ge "$before" ]
jq -s '[.[].elapsed_ns]' run/samples.ndjson >elapsed
is elapsed 'length >= 5 and . == sort' true
is elapsed 'last / 1e9 < 15' true
keep run
nothing_left
