# cause: An insertion per transaction into an SQLite database: each waits for flushes, or for the discard of its deleted journal, or computes, whichever takes longer.
# expect: flush, discards, own-cpu
# busy: flush, discards, own-cpu, other-cpu
# packages: sqlite3
program() {
    exec sqlite3 data.db "create table t(x);" \
        "$(for i in $(seq 20000); do echo "insert into t values($i);"; done | head -c 120000)"
}
