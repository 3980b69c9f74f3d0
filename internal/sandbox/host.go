package sandbox

import (
	"context"
	"syscall"

	"github.com/geminixiang/mikan/internal/fault"
)

// Host runs commands on the machine itself, as the worker's user. Nothing is hidden from them but the worker's
// environment. A process that leaves its group on purpose (setsid) outlives its command.
type Host struct{}

// Name implements Sandbox.
func (*Host) Name() string { return "host" }

// Describe implements Sandbox.
func (*Host) Describe() string {
	return "Commands run directly on the operator's machine, without isolation and with network: be careful."
}

// Probe implements Sandbox.
func (h *Host) Probe(ctx context.Context) error {
	if err := probe(ctx, h, temporaryOffice); err != nil {
		return fault.Wrap(fault.Unavailable, err, "commands cannot be run on this machine: /bin/sh is needed")
	}
	return nil
}

// Run implements Sandbox.
func (*Host) Run(ctx context.Context, command Command) (Exit, error) {
	call := newCall()
	return run(ctx, job{
		argv:      []string{"/bin/sh", "-c", gated, "sandbox", command.Script},
		dir:       command.Dir,
		env:       environment(command.Dir, call),
		call:      call,
		watch:     startWatcher,
		terminate: func(p *process) { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) },
		failed:    neverReady,
	}, command)
}
