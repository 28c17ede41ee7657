# cause: Near miss of run-drop-limit: the limit that is set in the middle of the run is out of reach.
# expect: device, queue-depth
# runs: fathom
. "${1%/*}/run-drop-limit.sh"
reads=90000000
