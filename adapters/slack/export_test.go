package slack

import "time"

// SetPingWithin changes how long a socket may be silent, for sockets that are made from now on.
func SetPingWithin(d time.Duration) (before time.Duration) {
	before = time.Duration(pingWithin.Swap(int64(d)))
	return before
}
