package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/geminixiang/mikan/internal/devstack"
)

// addresses is where the shared servers are: the content of addressesFile.
type addresses struct {
	DatabaseURL     string
	TemporalAddress string
	UIURL           string
}

// The files of the state directory. Locks are held by processes and end with them, however they end.
const (
	startLock     = "start.lock"  // exclusive: who looks for a keeper and starts one
	usersLock     = "users.lock"  // shared: every test process, for its life; exclusive: a keeper that ends
	keeperLock    = "keeper.lock" // exclusive: the keeper, for its life
	addressesFile = "addresses.json"
	keeperPID     = "keeper.pid" // for people
	keeperLog     = "keeper.log"
	progressLog   = "progress.log"
	stackDir      = "stack"
)

const (
	// protocol changes whenever older and newer test processes would misunderstand each other.
	protocol = "1"
	// startTimeout bounds a start that builds the dev server on a slow machine.
	startTimeout = 30 * time.Minute
	// lockPoll is how often a lock that another process holds is tried.
	lockPoll = 20 * time.Millisecond
)

// membership keeps the shared lock of this process until it ends.
var membership struct {
	once  sync.Once
	users *flock.Flock
	at    addresses
	err   error
}

// servers returns the shared servers, and starts them when nobody did.
func servers(t testing.TB) addresses {
	t.Helper()
	membership.once.Do(func() {
		membership.at, membership.users, membership.err = join()
	})
	if membership.err != nil {
		t.Fatalf("the tests' servers: %v", membership.err)
	}
	return membership.at
}

// join makes this process a user of the shared servers.
func join() (addresses, *flock.Flock, error) {
	at := addresses{DatabaseURL: os.Getenv("MIKAN_DATABASE_URL"), TemporalAddress: os.Getenv("TEMPORAL_ADDRESS")}
	if at.DatabaseURL != "" && at.TemporalAddress != "" {
		return at, nil, nil
	}
	state, err := stateDir()
	if err != nil {
		return addresses{}, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	starting := flock.New(filepath.Join(state, startLock))
	if _, err := starting.TryLockContext(ctx, lockPoll); err != nil {
		return addresses{}, nil, fmt.Errorf("waiting for another process that starts them: %w", err)
	}
	defer func() { _ = starting.Unlock() }()
	users := flock.New(filepath.Join(state, usersLock))
	if _, err := users.TryRLockContext(ctx, lockPoll); err != nil {
		return addresses{}, nil, fmt.Errorf("waiting for the end of earlier ones: %w", err)
	}
	at, err = find(ctx, state)
	if err != nil {
		return addresses{}, nil, errors.Join(err, users.Unlock())
	}
	return at, users, nil
}

// find reads the addresses of a living keeper, or starts one.
func find(ctx context.Context, state string) (addresses, error) {
	keeper := flock.New(filepath.Join(state, keeperLock))
	free, err := keeper.TryLock()
	if err != nil {
		return addresses{}, err
	}
	if free {
		if err := errors.Join(keeper.Unlock(), startKeeper(ctx, state)); err != nil {
			return addresses{}, err
		}
	}
	// A keeper may be starting for a process that was killed while it waited.
	for {
		text, err := os.ReadFile(filepath.Join(state, addressesFile))
		if err == nil {
			var at addresses
			return at, json.Unmarshal(text, &at)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return addresses{}, err
		}
		if free, err := keeper.TryLock(); err != nil || free {
			return addresses{}, errors.Join(err, keeper.Unlock(), keeperFailed(state))
		}
		select {
		case <-ctx.Done():
			return addresses{}, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// startKeeper starts this same program as the keeper, in a session of its own and with none of our files: `go test`
// waits for everybody who holds a test's output.
func startKeeper(ctx context.Context, state string) error {
	for _, stale := range []string{addressesFile, progressLog} {
		if err := os.Remove(filepath.Join(state, stale)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(state, keeperLog), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), keeperEnv+"="+state)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // keeperFailed tells how
		close(ended)
	}()
	var said int64
	for {
		said = follow(filepath.Join(state, progressLog), said)
		if _, err := os.Stat(filepath.Join(state, addressesFile)); err == nil {
			return nil
		}
		select {
		case <-ended:
			return keeperFailed(state)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// follow copies what was added to the keeper's progress to our standard error and returns how far it got.
func follow(path string, from int64) int64 {
	f, err := os.Open(path)
	if err != nil {
		return from
	}
	defer func() { _ = f.Close() }()
	n, _ := io.Copy(os.Stderr, io.NewSectionReader(f, from, 1<<20))
	return from + n
}

func keeperFailed(state string) error {
	text, err := os.ReadFile(filepath.Join(state, keeperLog))
	return errors.Join(fmt.Errorf("their keeper ended:\n%s", text), err)
}

// stateDir is a directory that only this user can write to, for one version of the dev server and one choice of
// servers from the environment.
func stateDir() (string, error) {
	version, err := devstack.DevServerVersion()
	if err != nil {
		version = "none" // Temporal comes from elsewhere, or its absence is reported by the keeper
	}
	sum := sha256.Sum256([]byte(protocol + "\n" + version + "\n" + os.Getenv("MIKAN_DATABASE_URL") + "\n" + os.Getenv("TEMPORAL_ADDRESS")))
	dir := filepath.Join(os.TempDir(), "mikan-test-"+strconv.Itoa(os.Geteuid())+"-"+hex.EncodeToString(sum[:4]))
	// Root's Postgres runs as another user, who must be able to pass.
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a directory that only this user can write to; remove it", dir)
	}
	return dir, nil
}
