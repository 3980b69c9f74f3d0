package devstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

// InUseError says that another process runs a stack on the data directory.
type InUseError struct {
	DataDir string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("another mikan dev is running on %s; stop it, or name another directory with --data-dir", e.DataDir)
}

// dataDir is a locked data directory and what it remembers between starts.
type dataDir struct {
	path string
	lock *flock.Flock

	mu     sync.Mutex
	memory memory
}

// memory is stack.json.
type memory struct {
	PostgresPassword string `json:"postgres_password,omitempty"`
	PostgresPort     int    `json:"postgres_port,omitempty"`
	TemporalPort     int    `json:"temporal_port,omitempty"`
	TemporalUIPort   int    `json:"temporal_ui_port,omitempty"`
	// TemporalBy is what created the Temporal database. Another program's newer schema may not be readable.
	TemporalBy temporalProgram `json:"temporal_by,omitempty"`
}

const (
	memoryFile = "stack.json"
	lockFile   = "dev.lock"
)

func (d *dataDir) logs() string     { return filepath.Join(d.path, "logs") }
func (d *dataDir) run() string      { return filepath.Join(d.path, "run") }
func (d *dataDir) postgres() string { return filepath.Join(d.path, "postgres") }
func (d *dataDir) temporal() string { return filepath.Join(d.path, "temporal") }

func (d *dataDir) temporalDatabase() string { return filepath.Join(d.temporal(), "temporal.db") }

// openDataDir creates, locks and reads the data directory.
func openDataDir(path string) (*dataDir, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	// Leftovers of an earlier start are recognised by the paths in their arguments, so there must be one spelling.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(path, lockFile))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	if !locked {
		return nil, &InUseError{DataDir: path}
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return d, nil
}

func (d *dataDir) prepare() error {
	for _, dir := range []string{d.logs(), d.run(), d.temporal()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(d.path, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return d.remember(func(*memory) {})
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := json.Unmarshal(text, &d.memory); err != nil {
		// The text holds the password, so it is not quoted.
		return fmt.Errorf("%s cannot be read; it holds the database's password, so restore it or use a new data directory",
			filepath.Join(d.path, memoryFile))
	}
	return nil
}

func (d *dataDir) recall() memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory
}

// remember changes stack.json in one step.
func (d *dataDir) remember(change func(*memory)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.memory
	change(&next)
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(d.path, memoryFile), append(text, '\n')); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	d.memory = next
	return nil
}

// replaceFile writes a file that only its owner can read; after a crash it is the old one or the new one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// makePrivate creates the data directory for its owner alone, or closes an existing one to others. It refuses places
// that clearly hold something else, since closing those would break them.
func makePrivate(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory, so it cannot hold the data", path)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, memoryFile)); err == nil {
		// A directory of ours: as root its group may traverse it, and nobody else may do anything.
		if info.Mode().Perm()&0o067 == 0 {
			return nil
		}
		return closeToOthers(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if len(entries) > 0 || info.Mode()&os.ModeSticky != 0 {
		return fmt.Errorf("%s is open to other users and holds other things; name a new or an empty directory for the data", path)
	}
	return closeToOthers(path)
}

func closeToOthers(path string) error {
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}
