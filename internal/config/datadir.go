package config

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// DefaultDataDir is where dev keeps its data when not told otherwise: mikan's directory in the user's state directory
// ($XDG_STATE_HOME or ~/.local/state; ~/Library/Application Support on macOS).
func DefaultDataDir(getenv func(string) string) (string, error) {
	return dataDir(runtime.GOOS, getenv)
}

func dataDir(goos string, getenv func(string) string) (string, error) {
	// The XDG specification has relative paths ignored.
	if state := getenv("XDG_STATE_HOME"); goos != "darwin" && filepath.IsAbs(state) {
		return filepath.Join(state, "mikan"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("HOME is not set, so there is no default data directory; name one with --data-dir")
	}
	if goos == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "mikan"), nil
	}
	return filepath.Join(home, ".local", "state", "mikan"), nil
}

// DevEnvFile is the name, in the data directory, of the file in which a running dev writes where its parts listen.
const DevEnvFile = "dev.env"

// WriteDevEnv writes the file that other commands read when their environment names neither database nor Temporal. It
// replaces the file in one step and lets only its owner read it, since it holds the database's password.
func WriteDevEnv(dataDir string, values map[string]string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.ContainsAny(values[name], "\r\n") || strings.ContainsAny(name, "=#\r\n ") {
			return fmt.Errorf("%s cannot be written on one line of %s", name, DevEnvFile)
		}
		fmt.Fprintf(&b, "%s=%s\n", name, values[name])
	}
	f, err := os.CreateTemp(dataDir, DevEnvFile+".*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", DevEnvFile, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(b.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", DevEnvFile, err)
	}
	return os.Rename(f.Name(), filepath.Join(dataDir, DevEnvFile))
}

// readDevEnv reads what WriteDevEnv wrote; nil when there is no such file.
func readDevEnv(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	values := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("line %d is not NAME=VALUE", n)
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values, lines.Err()
}
