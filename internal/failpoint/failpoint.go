// Package failpoint names every place where a process may die or stand still between two effects, so that the fault
// suite can have it happen exactly there. In production it costs one atomic load.
//
// MIKAN_FAILPOINT=<name>[:<n>][:freeze] arms one point: the n-th time (default: first) that the process passes, it kills
// itself with SIGKILL, or, with freeze, stops itself with SIGSTOP until somebody continues it. Only the fault suite sets
// it.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// act is what an armed point does to its process.
type act string

const (
	kill   act = "kill"
	freeze act = "freeze"
)

type armed struct {
	name string
	act  act
	left atomic.Int64
}

var current atomic.Pointer[armed]

func init() { Arm(os.Getenv("MIKAN_FAILPOINT")) }

// Arm arms the point described by spec ("name", "name:n", "name:freeze" or "name:n:freeze"); an empty spec disarms.
func Arm(spec string) {
	if spec == "" {
		current.Store(nil)
		return
	}
	parts := strings.Split(spec, ":")
	a := &armed{name: parts[0], act: kill}
	n := int64(1)
	for _, part := range parts[1:] {
		if parsed, err := strconv.ParseInt(part, 10, 64); err == nil && parsed > 0 {
			n = parsed
		}
		if act(part) == freeze {
			a.act = freeze
		}
	}
	a.left.Store(n)
	current.Store(a)
}

// Hit marks a place. Names are "<effect>.before" and "<effect>.after", for example "claim.commit.before".
func Hit(name string) {
	a := current.Load()
	if a == nil || a.name != name || a.left.Add(-1) != 0 {
		return
	}
	if a.act == freeze {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return
	}
	// SIGKILL, not os.Exit: nothing deferred may run, as nothing would in a real crash.
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
