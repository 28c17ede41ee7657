# cause: A program that was stopped (SIGSTOP).
# expect: stopped
# watch: 4s
program() {
    starts sh -c 'kill -STOP $$; exec sleep 60'
    sleep 0.5
    head -1 background.pids
}
clean() { ends; }
