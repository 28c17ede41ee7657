# cause: SQLite looks up random rows of a cold database: one read of the disk at a time, or its CPU time, whichever takes longer.
# expect: queue-depth, own-cpu
# busy: queue-depth, own-cpu, other-cpu
# packages: sqlite3
prepare() {
    sqlite3 data.db "pragma journal_mode=off; pragma synchronous=off; create table t(id integer primary key, v blob);
        with recursive n(x) as (select 1 union all select x+1 from n where x < 200000)
        insert into t select x, randomblob(3000) from n;" >/dev/null
    cold data.db
}
program() {
    for_s 5 sqlite3 data.db "with recursive n(x) as (select 1 union all select x+1 from n where x < 1000000)
        select sum(length((select v from t where id = 1 + abs(random() + x * 0) % 200000))) from n;"
}
