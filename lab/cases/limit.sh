# `fathom limit` on one disk and on four ends in time with a coherent result, and changes nothing.
# when: all
for number in 0 1 2 3; do
    dd if=/dev/urandom of="$(disk $number)" bs=64k count=16 conv=fsync 2>/dev/null
    eval "before$number=$(disk_sum $number)"
done

# limit_over NAME DISK…: what holds for every search.
limit_over() {
    name=$1
    shift
    fathom limit "$@" --duration=$((10 + 5 * $#)) --json --record="$name" >"$name.json" 2>err
    # Ceilings follow from the record.
    recorded=$(jq -c 'del(.ceilings)' "$name.json")
    check "what is printed is what is recorded" [ "$recorded" = "$(jq -c . "$name/record.json")" ]
    is "$name.json" '.report | [.finished, (.seconds_used <= .seconds_planned + 5)] | tojson' '[true,true]'
    is "$name.json" '[.facts.targets[].path, .report.targets[].name] | unique | join(" ")' \
        "$(printf '%s\n' "$@" | sort | xargs)"
    # No window had an error, every peak is one of the points measured, and has a verdict.
    is "$name.json" '[.report.targets[].blocks[].problems[]] | tojson' '[]'
    is "$name.json" '[.report.targets[].blocks[] | (.peak | [.workers, .depth]) as $peak
        | any(.points[]; [.workers, .depth] == $peak)] | unique | tojson' '[true]'
    is "$name.json" '([.report.targets[].blocks[]] | length) - ([.findings[] | select(.rank == 1)] | length)' 0
    is "$name.json" '.report.windows' "$(wc -l <"$name/windows.ndjson")"
    keep "$name"
}

limit_over one "$(disk 0)"
is one.json '.report.together' '[]'
limit_over four "$(disk 0)" "$(disk 1)" "$(disk 2)" "$(disk 3)"
is four.json '.report.together | length > 0 and all(.[]; [.targets[].target] == [0, 1, 2, 3])' true
for number in 0 1 2 3; do
    eval "before=\$before$number"
    check "disk $number is as it was" [ "$(disk_sum $number)" = "$before" ]
done
