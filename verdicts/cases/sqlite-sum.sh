# cause: An SQLite query that computes, without any data.
# expect: own-cpu
# busy: own-cpu, other-cpu
# packages: sqlite3
program() { for_s 5 sqlite3 :memory: 'with recursive n(x) as (select 1 union all select x+1 from n where x < 1000000000) select sum(x % 7) from n;'; }
