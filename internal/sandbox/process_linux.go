package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processAttributes puts the process into a group of its own and has the kernel kill it when the thread that started
// it ends, which is why start keeps that thread.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

var bootID = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})

// Positions in /proc/<pid>/stat, counted from the field after the command's name (proc(5): state is field 3).
const (
	statState     = 0
	statGroup     = 2
	statStartTime = 19
)

func stat(pid string) ([]string, error) {
	line, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil, err
	}
	// The name is in parentheses and may hold spaces and parentheses itself.
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) <= statStartTime {
		return nil, errors.New("unexpected format of /proc/" + pid + "/stat")
	}
	return fields, nil
}

// startTime is in clock ticks since the machine started.
func startTime(pid int) (string, error) {
	fields, err := stat(strconv.Itoa(pid))
	if err != nil {
		return "", err
	}
	return fields[statStartTime], nil
}

// running tells whether a process or, once it is a zombie, another of its group still does anything.
func running(pgid int) bool {
	fields, err := stat(strconv.Itoa(pgid))
	if err == nil && fields[statState] != "Z" && fields[statState] != "X" {
		return true
	}
	return anyMember(pgid, func(string) bool { return true })
}

func memberLives(pgid int, call string) bool {
	mark := []byte(callVariable + "=" + call + "\x00")
	return anyMember(pgid, func(pid string) bool {
		env, err := os.ReadFile("/proc/" + pid + "/environ")
		return err == nil && bytes.Contains(env, mark)
	})
}

func anyMember(pgid int, fits func(pid string) bool) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	want := strconv.Itoa(pgid)
	for _, entry := range entries {
		if pid := entry.Name(); pid[0] >= '1' && pid[0] <= '9' {
			fields, err := stat(pid)
			if err == nil && fields[statGroup] == want && fields[statState] != "Z" && fields[statState] != "X" && fits(pid) {
				return true
			}
		}
	}
	return false
}

// awaitEnd returns when the child has ended. It does not reap it: until then its number, and so its group's, cannot be
// given to another process.
func awaitEnd(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// awaitGone waits until a process that is not a child has ended.
func awaitGone(pid int, limit time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	deadline := time.Now().Add(limit)
	for left := limit; left > 0; left = time.Until(deadline) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
