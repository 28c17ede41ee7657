# cause: A program does nothing but sleep 20 ms at a time, in select.
# expect: timer
# packages: perl
program() { exec perl -e 'select(undef, undef, undef, 0.02) for 1..300'; }
