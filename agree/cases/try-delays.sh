# What `fathom try` claims about known delays; $ROUNDS [10] experiments of up to 72 s, $NICE [0] is its workers' nice value.
truncate -s 1G sparse
# The delays are spent on a CPU, so that they are exact. What adds nothing differs from the baseline in its keys alone.
cat >try.toml <<END
question = "Is a delay found?"
[job]
rw = "randread"
bs = "4k"
ioengine = "psync"
direct = 1
nice = ${NICE:-0}
thinktime_spin = "1s"
[[variant]]
name = "baseline"
job = { thinktime = "100us" }
END
for added in 5 2 0; do
    printf '[[variant]]\nname = "%s%%"\njob = { thinktime = "%sus", thinktime_blocks = 1 }\n' $added $((100 + added)) >>try.toml
done
for _ in $(seq "${ROUNDS:-10}"); do
    "$FATHOM" try ./try.toml sparse --no-record --sampling=off --json
done >try.json
# Right: a change in the right direction, or none where there is none. Wrong: a change in the other direction or where
# there is none, or "no effect" above less than there is; above more, it is true, but not the effect looked for.
jq -rs '
    def judged($added): (1 - 100 / (100 + $added)) as $truth |
        if .claim == "changed" then if $added > 0 and .ratio.value < 1 then "right" else "wrong" end
        elif .claim.none_above? then
            if .claim.none_above <= $truth then "wrong" elif $added > 0 then "inconclusive" else "right" end
        else "inconclusive" end;
    . as $all | ([5, 2], [2, 3], [0, 4]) as [$added, $at] |
    [$all[].report.conditions[$at].effect | judged($added)] as $claims |
    ($claims | length) as $n | ([$claims[] | select(. == "right")] | length) as $right |
    ([$claims[] | select(. == "wrong")] | length) as $wrong |
    ["delay of \($added)%: right claims of \($n)", $right, $n, 0, 10],
    ["delay of \($added)%: wrong claims of \($n)", $wrong, 0, ($n / 40 | ceil)] | @tsv' try.json
