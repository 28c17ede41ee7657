# cause: curl downloads no faster than told to (--limit-rate).
# expect: timer, peer
# packages: curl python3
prepare() {
    head -c 20m /dev/zero >data
    starts /usr/bin/python3 -m http.server -b 127.0.0.1 -d "$DIR" 7481
    until_ok curl -s -o /dev/null http://127.0.0.1:7481/
}
program() { exec curl -s --limit-rate 2m --max-time 5 -o /dev/null http://127.0.0.1:7481/data || :; }
clean() { ends; }
