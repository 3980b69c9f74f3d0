package devstack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// arguments is a command line, one element an argument.
type arguments []string

func (a arguments) has(flag, value string) bool {
	for i := 0; i+1 < len(a); i++ {
		if a[i] == flag && a[i+1] == value {
			return true
		}
	}
	return false
}

// commandLines returns the command line of every process there is, by process id.
func commandLines() (map[int]arguments, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]arguments{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// An error means that it has ended, or is not ours to see.
		if args, err := argumentsOf(pid); err == nil {
			all[pid] = args
		}
	}
	return all, nil
}

func argumentsOf(pid int) (arguments, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// postgresIn finds the server processes whose working directory is dir: after a kill of the postmaster its backends
// live on until they notice, have no arguments that name the directory, and keep a new postmaster from starting.
func postgresIn(dir string) ([]process, error) {
	all, err := commandLines()
	if err != nil {
		return nil, err
	}
	var found []process
	for pid, args := range all {
		cwd := filepath.Join("/proc", strconv.Itoa(pid), "cwd")
		match := func(args arguments) bool {
			at, err := os.Readlink(cwd)
			return err == nil && at == dir && len(args) > 0 &&
				(strings.HasPrefix(args[0], "postgres:") || filepath.Base(args[0]) == "postgres")
		}
		if match(args) {
			found = append(found, process{pid: pid, match: match})
		}
	}
	return found, nil
}
