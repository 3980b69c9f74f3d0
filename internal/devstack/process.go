package devstack

import (
	"os"
	"syscall"
)

// process is a process that was seen with certain arguments.
type process struct {
	pid   int
	match func(arguments) bool
}

// signal sends sig if the process still is what it was seen as. It never reaches a stranger that got its number since:
// on Linux FindProcess pins the process before the second look.
func (p process) signal(sig syscall.Signal) {
	pinned, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer func() { _ = pinned.Release() }()
	if args, err := argumentsOf(p.pid); err != nil || !p.match(args) {
		return
	}
	// An error means that it has ended.
	_ = pinned.Signal(sig)
}

// runningWith finds the processes that were started with flag followed by value, both exactly.
func runningWith(flag, value string) ([]process, error) {
	match := func(args arguments) bool { return args.has(flag, value) }
	all, err := commandLines()
	if err != nil {
		return nil, err
	}
	var found []process
	for pid, args := range all {
		if match(args) && pid != os.Getpid() {
			found = append(found, process{pid: pid, match: match})
		}
	}
	return found, nil
}
