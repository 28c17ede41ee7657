# Short jobs in fio and in fathom: I/Os and bytes of each direction, exit status, runtimes (fio-jobs.txt).
needs fio fio
set -f

# does PROGRAM ARG…: what it did with the keys, as JSON. What was refused did nothing.
does() {
    rm -rf job && mkdir job
    head -c 4194304 /dev/zero | tr '\0' Z >job/data
    code=0
    (cd job && exec timeout 60 "$@" --output-format=json --eta=never "${keys[@]/#/--}" </dev/null >../out 2>&1) || code=$?
    sed -n '/^{/,$p' out | jq -c --argjson code $code '
        [.jobs[]?] | select(length > 0 and all(.error == 0)) as $all |
        {$code, ms: (map(.read.runtime, .write.runtime, .trim.runtime) | max)} +
        (["read", "write", "trim"] | map(. as $dir |
            {key: ., value: {ios: ([$all[][$dir].total_ios] | add), bytes: ([$all[][$dir].io_bytes] | add)}}) | from_entries)
    ' >done 2>/dev/null || :
    [ -s done ] && cat done || echo "{\"code\":$code}"
}

while IFS= read -r line; do
    case $line in '#'*) continue ;; esac
    job=${line%% | *} why=
    [ "$job" = "$line" ] || why=${line#* | }
    read -r same words <<<"$job"
    read -ra keys <<<"$words"
    theirs=$(does fio)
    ours=$(does "$FATHOM" run --no-record --sampling=off --overwrite=data --quiet)
    echo >>ran
    jq -rn --argjson ours "$ours" --argjson theirs "$theirs" --arg same "$same" --arg job "$words" --arg why "$why" '
        def figure($name; of; $percent): [$name, ($ours | of // 0), ($theirs | of // 0), $percent];
        def total: [.read, .write, .trim | .bytes? // 0] | add;
        def each($ios; $bytes): ("read", "write", "trim") as $dir |
            (if $ios == null then empty else figure("\($dir)s"; .[$dir].ios?; $ios) end),
            figure("\($dir) bytes"; .[$dir].bytes?; $bytes);
        def runtime: figure("runtime, ms"; .ms; 11);
        {
            all: [each(0; 0)], total: [each(null; 0)], bytes: [each(11; 11), figure("bytes"; total; 0)],
            rate: [each(11; 11), runtime], runtime: [runtime], exit: []
        }[$same] // error("\($same): unknown in fio-jobs.txt") |
        (.[], figure("exit status"; .code; 0)) | ["\($job): \(.[0])", .[1], .[2], 0, .[3], $why] | @tsv'
done <"$ROOT/fio-jobs.txt" | shown
row jobs "$(wc -l <ran)" "$(grep -c '^[^#]' "$ROOT/fio-jobs.txt")" 0 0
