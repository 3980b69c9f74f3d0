package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processAttributes puts the process into a group of its own. macOS has no death signal: the watcher stands in.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

var bootID = sync.OnceValues(func() (string, error) { return unix.Sysctl("kern.bootsessionuuid") })

// startTime is in microseconds since 1970.
func startTime(pid int) (string, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", err
	}
	if info.Proc.P_pid != int32(pid) {
		return "", errors.New("no such process")
	}
	started := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", started.Sec, started.Usec), nil
}

func running(pgid int) bool { return syscall.Kill(-pgid, 0) == nil }

// memberLives looks for the mark in the environment that ps shows of one's own processes.
func memberLives(pgid int, call string) bool {
	if !running(pgid) {
		return false
	}
	out, err := exec.Command("ps", "-E", "-g", strconv.Itoa(pgid), "-o", "command=").Output()
	return err == nil && strings.Contains(string(out), callVariable+"="+call)
}

// awaitEnd returns when the child has ended. It reaps it too, which is harmless here: macOS gives out process numbers
// in turn, so one is not used again between the end of a command and the killing of its group.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }

func awaitGone(int, time.Duration) {}
