// Package failpoint names every place where a process may die between two effects, so that the fault suite can kill
// it exactly there. In production it costs one atomic load.
//
// MIKAN_FAILPOINT=<name>[:<n>] arms one point: the process kills itself with SIGKILL the n-th time (default: first)
// that it passes. Only the fault suite sets it.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

type armed struct {
	name string
	left atomic.Int64
}

var current atomic.Pointer[armed]

func init() { Arm(os.Getenv("MIKAN_FAILPOINT")) }

// Arm arms the point described by spec ("name" or "name:n"); an empty spec disarms.
func Arm(spec string) {
	if spec == "" {
		current.Store(nil)
		return
	}
	name, count, found := strings.Cut(spec, ":")
	n := int64(1)
	if found {
		if parsed, err := strconv.ParseInt(count, 10, 64); err == nil && parsed > 0 {
			n = parsed
		}
	}
	a := &armed{name: name}
	a.left.Store(n)
	current.Store(a)
}

// Hit marks a place. Names are "<effect>.before" and "<effect>.after", for example "claim.commit.before".
func Hit(name string) {
	a := current.Load()
	if a == nil || a.name != name {
		return
	}
	if a.left.Add(-1) == 0 {
		// SIGKILL, not os.Exit: nothing deferred may run, as nothing would in a real crash.
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
