package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Remove deletes a stack's data directory with everything in it, and ends at once what a killed owner left running
// there. It fails with *InUseError while a stack runs on it, and does nothing when there is no such directory.
func Remove(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(path, memoryFile)); errors.Is(err, fs.ErrNotExist) {
		return removeBegun(path)
	}
	dir, err := openDataDir(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.lock.Unlock() }()
	cluster := dir.postgres()
	var elsewhere string
	if target, err := os.Readlink(cluster); err == nil {
		cluster, elsewhere = target, filepath.Dir(target)
	}
	left := service{name: "stack", dir: dir, log: slog.New(slog.DiscardHandler), interrupt: syscall.SIGKILL, leftovers: func() ([]process, error) {
		postmaster, err := runningWith("-D", cluster)
		backends, backendsErr := postgresIn(cluster)
		temporal, temporalErr := runningWith("--db-filename", dir.temporalDatabase())
		return append(append(postmaster, backends...), temporal...), errors.Join(err, backendsErr, temporalErr)
	}}
	if err := left.endLeftovers(); err != nil {
		return err
	}
	if elsewhere != "" {
		if err := os.RemoveAll(elsewhere); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir.path)
}

// removeBegun removes what a start leaves that was killed before it wrote its first file, and nothing else.
func removeBegun(path string) error {
	begun := []string{lockFile, "logs", "run", "temporal"}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !slices.Contains(begun, entry.Name()) {
			return fmt.Errorf("%s holds other things than a stack's data; it was not removed", path)
		}
	}
	return os.RemoveAll(path)
}
