//go:build !linux

package devstack

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// arguments is a command line as ps prints it: one text, its arguments separated by blanks.
type arguments string

func (a arguments) has(flag, value string) bool {
	return strings.Contains(" "+string(a)+" ", " "+flag+" "+value+" ")
}

// commandLines returns the command line of every process there is, by process id.
func commandLines() (map[int]arguments, error) {
	out, err := exec.Command("ps", "-axwwo", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	all := map[int]arguments{}
	for line := range strings.Lines(string(out)) {
		number, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pid, err := strconv.Atoi(number); err == nil {
			all[pid] = arguments(strings.TrimSpace(command))
		}
	}
	return all, nil
}

func argumentsOf(pid int) (arguments, error) {
	out, err := exec.Command("ps", "-wwo", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", err
	}
	return arguments(strings.TrimSpace(string(out))), nil
}

// postgresIn finds nothing here: this system does not tell a process's working directory. The backends of a killed
// postmaster end by themselves within moments; until then the new one is started again.
func postgresIn(string) ([]process, error) { return nil, nil }
