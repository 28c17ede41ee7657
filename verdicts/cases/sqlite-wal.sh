# cause: One insertion per transaction into an SQLite database in WAL mode with full synchronization: flushes, or its CPU time, whichever takes longer.
# expect: flush, own-cpu
# busy: flush, own-cpu, other-cpu
# packages: python3
program() {
    exec /usr/bin/python3 -c '
import sqlite3, time
db = sqlite3.connect("data.db", isolation_level=None)
db.execute("pragma journal_mode=wal")
db.execute("pragma synchronous=full")
db.execute("create table t(x)")
end = time.monotonic() + 6
while time.monotonic() < end:
    db.execute("insert into t values(1)")'
}
