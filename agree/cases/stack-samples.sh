# Where CPU time goes, by the innermost function of the kernel, under load: perf record.
needs perf linux-perf
filled filled 128m
starts bash -c '
    again() { while :; do "$@"; done; }
    again dd if=filled of=/dev/null bs=64k iflag=direct &
    again dd if=filled of=copied bs=128k conv=fsync &
    wait'
sleep 2
"$FATHOM" stacks --json --no-record --timer -F 99 -t "${TIME}s" >stacks.json &
ours=$!
sampling $ours
perf record -q -a -F 99 -e cpu-clock -o perf.data sleep "$TIME"
wait $ours

# Lines `command address function`; those of the kernel are in the upper half. Neither program counts its own samples.
perf script -F comm,ip,sym -i perf.data 2>/dev/null | awk '
    # dd is a hexadecimal number, too.
    match($0, / [0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]+ [^ ]*/) {
        comm = substr($0, 1, RSTART - 1)
        gsub(/^ +| +$/, "", comm)
        if (comm ~ /^(swapper|perf|fathom.*)$/) next
        split(substr($0, RSTART + 1, RLENGTH - 1), part, / /)
        name = length(part[1]) < 16 || part[1] !~ /^[89a-f]/ ? "user mode" : part[2]
        sub(/\..*/, "", name)
        count[name]++
    }
    END { for (name in count) print "{\"" name "\":" count[name] "}" }' >perf.json
jq -rn --slurpfile perf perf.json --slurpfile stacks stacks.json '
    ($perf | add) as $theirs | ($theirs | add) as $all |
    ($stacks[0] | reduce .functions[] as $of ({};
        .[if $of.kernel then $of.function / "." | .[0] else "user mode" end] += $of.samples)) as $ours |
    ($ours | add) as $own |
    $theirs | to_entries | sort_by(-.value) | .[:12][] | (.value / $all) as $share |
    # Two standard deviations of the difference of two samples of one binomial share.
    ($share * (1 - $share) * (1 / $all + 1 / $own) | sqrt * 200) as $chance |
    ["% \(.key)", ($ours[.key] // 0) * 100 / $own, $share * 100, $chance] | @tsv' | shown 0.001
