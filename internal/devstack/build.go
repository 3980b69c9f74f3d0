package devstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// devServerModule is where the dev server's own Go module is in the source tree.
	devServerModule = "deployments/devserver"
	// lockPoll is how often a lock that another process holds is tried.
	lockPoll = 50 * time.Millisecond
	// progressEvery is how often a wait of minutes says that it goes on.
	progressEvery = 5 * time.Second
	// keepUnused is how long a binary of another version stays in the cache after its last use.
	keepUnused = 14 * 24 * time.Hour
)

// Prepare does what makes a first start long, without starting anything: unless TEMPORAL_ADDRESS is set or a recent
// temporal CLI is at hand, it builds the project's own Temporal server. The build takes about four minutes on two cores;
// one process builds, others wait for it. Options.DataDir is not used.
func Prepare(ctx context.Context, options Options) error {
	options.DataDir = "."
	o, err := options.withDefaults()
	if err != nil || o.Getenv("TEMPORAL_ADDRESS") != "" {
		return err
	}
	_, _, _, err = findTemporal(ctx, o, "")
	return err
}

func devServer(ctx context.Context, o Options) (string, error) {
	source, err := devServerSource()
	if err != nil {
		return "", err
	}
	version, err := DevServerVersion()
	if err != nil {
		return "", err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep the Temporal dev server: %w", err)
	}
	cache := filepath.Join(caches, "mikan", "devserver")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	program := filepath.Join(cache, version)
	if used(program) {
		return program, nil
	}
	wait := newTicker(o, "waiting for another process that builds the Temporal dev server")
	lock := flock.New(filepath.Join(cache, "build.lock"))
	_, err = lock.TryLockContext(ctx, lockPoll)
	wait.stop()
	if err != nil {
		return "", fmt.Errorf("waiting for another build of the Temporal dev server: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	if used(program) {
		return program, nil
	}
	if err := build(ctx, o, source, program); err != nil {
		return "", err
	}
	dropUnused(cache, program)
	return program, nil
}

// build compiles the module in source. The program appears under its name only when it is whole.
func build(ctx context.Context, o Options, source, program string) error {
	goTool, err := goCommand(o)
	if err != nil {
		return err
	}
	building := program + ".new"
	cmd := exec.CommandContext(ctx, goTool, "build", "-ldflags", "-s -w", "-o", building, ".")
	cmd.Dir = source
	// A workspace file above the source tree does not know this module.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	_, _ = fmt.Fprintln(o.Progress, "building the Temporal dev server (first start only, about 4 minutes on two cores)")
	progress := newTicker(o, "building the Temporal dev server (first start only, about 4 minutes on two cores)")
	out, err := cmd.CombinedOutput()
	progress.stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the Temporal dev server cannot be built (%w); install the temporal CLI or set TEMPORAL_ADDRESS:\n%s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(building, program); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(o.Progress, "the Temporal dev server is built (%s)\n", progress.elapsed())
	return nil
}

// goCommand finds the go tool: the one on the PATH, else the one this program was built with.
func goCommand(o Options) (string, error) {
	for _, dir := range append(filepath.SplitList(o.Getenv("PATH")), filepath.Join(o.Getenv("GOROOT"), "bin"), "/usr/local/go/bin") {
		if tool, err := exec.LookPath(filepath.Join(dir, "go")); err == nil && filepath.IsAbs(tool) {
			return tool, nil
		}
	}
	return "", errors.New("there is no go command to build the Temporal dev server with; install Go or the temporal CLI, or set TEMPORAL_ADDRESS")
}

// DevServerVersion names the dev server that the sources at hand and this Go would build.
func DevServerVersion() (string, error) {
	source, err := devServerSource()
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, file := range files {
		name := filepath.Base(file)
		if name != "go.mod" && name != "go.sum" && (!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")) {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintln(sum, name, len(content))
		_, _ = sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// devServerSource finds the module by walking up from the working directory, then from where this file was compiled.
func devServerSource() (string, error) {
	var from []string
	if wd, err := os.Getwd(); err == nil {
		from = append(from, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		from = append(from, filepath.Dir(file))
	}
	for _, dir := range from {
		for {
			source := filepath.Join(dir, filepath.FromSlash(devServerModule))
			if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
				return source, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("there is no Temporal: set TEMPORAL_ADDRESS, install the temporal CLI (its server 1.29 or newer), or run in mikan's source tree, which has a dev server")
}

// used notes the use of a built program; false when there is none.
func used(program string) bool {
	now := time.Now()
	return os.Chtimes(program, now, now) == nil
}

// dropUnused removes programs, of some 150 MB each, that nobody has started for long.
func dropUnused(cache, keep string) {
	programs, _ := filepath.Glob(filepath.Join(cache, "*")) // fails for malformed patterns only
	for _, program := range programs {
		info, err := os.Stat(program)
		if err == nil && program != keep && filepath.Ext(program) != ".lock" && time.Since(info.ModTime()) > keepUnused {
			_ = os.Remove(program)
		}
	}
}

// ticker says every few seconds that something goes on.
type ticker struct {
	began time.Time
	quit  chan struct{}
	done  chan struct{}
}

func newTicker(o Options, what string) *ticker {
	t := &ticker{began: time.Now(), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-t.quit:
				return
			case <-tick.C:
				_, _ = fmt.Fprintf(o.Progress, "%s: %s…\n", what, t.elapsed())
			}
		}
	}()
	return t
}

func (t *ticker) stop() {
	close(t.quit)
	<-t.done
}

func (t *ticker) elapsed() string { return time.Since(t.began).Round(time.Second).String() }
