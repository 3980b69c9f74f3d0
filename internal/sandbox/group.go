package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// Group identifies a command's process group beyond doubt, so that a worker can end what a dead one on the same machine
// left behind without ever hitting a process that merely got the same number. It is stored as JSON; its fields are a
// storage format.
type Group struct {
	Host      string `json:"host"`      // the machine's name
	BootID    string `json:"bootId"`    // changes whenever the machine starts
	PGID      int    `json:"pgid"`      // the number of the group and of its leader
	StartTime string `json:"startTime"` // when the leader started, as the kernel counts
	Call      string `json:"call"`      // random, in the environment of each process of the group
	Container string `json:"container,omitempty"`
}

func identify(pgid int, call, container string) (Group, error) {
	started, err := startTime(pgid)
	if err != nil {
		return Group{}, fmt.Errorf("identify the command's process: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return Group{}, fmt.Errorf("identify this start of the machine: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return Group{}, err
	}
	return Group{Host: host, BootID: boot, PGID: pgid, StartTime: started, Call: call, Container: container}, nil
}

// Here tells whether the group was started on this machine since its last start. Only then can this process tell
// more about it, or end it.
func (g Group) Here() bool {
	host, err := os.Hostname()
	if err != nil || host != g.Host {
		return false
	}
	boot, err := bootID()
	return err == nil && boot == g.BootID
}

// Alive tells whether a process of this very group runs on this machine. A number that was given to another process
// since is not the group.
func (g Group) Alive() bool {
	if g.PGID <= 1 || !g.Here() {
		return false
	}
	if started, err := startTime(g.PGID); err == nil {
		return started == g.StartTime && running(g.PGID)
	}
	// The leader is gone. Its number stays taken while a member of the group lives, so a member that carries this
	// call's mark proves that it is the same group.
	return memberLives(g.PGID, g.Call)
}

// killWait is how long Kill waits to see the group gone.
const killWait = time.Second

// Kill ends the group with SIGKILL if it is alive, and its container if it has one. A group that is gone, or that
// another machine started, is no error.
func (g Group) Kill() error {
	if !g.Here() {
		return nil
	}
	var failed error
	if g.Container != "" {
		failed = removeContainer(g.Container)
	}
	if !g.Alive() {
		return failed
	}
	if err := syscall.Kill(-g.PGID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errors.Join(failed, fault.Wrap(fault.Internal, err, "process group %d could not be killed", g.PGID))
	}
	for deadline := time.Now().Add(killWait); g.Alive(); {
		if time.Now().After(deadline) {
			return errors.Join(failed, fault.New(fault.Internal, "process group %d survives SIGKILL", g.PGID))
		}
		time.Sleep(5 * time.Millisecond)
	}
	return failed
}
