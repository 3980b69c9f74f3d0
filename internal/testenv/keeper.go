package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/geminixiang/mikan/internal/devstack"
)

const (
	// keeperEnv makes a test program the keeper of the state directory that it names.
	keeperEnv = "MIKAN_TESTENV_KEEPER"
	// idleEnv is how long the servers outlive the last test process, such as "30s". Default: defaultIdle.
	idleEnv     = "MIKAN_TESTENV_IDLE"
	defaultIdle = 5 * time.Minute
	// idlePoll is how often the keeper looks for test processes.
	idlePoll = time.Second
)

// The keeper is the test program of whichever package came first, run once more: nothing has to be built or found for
// it, and it is never of another version than the tests. It takes over before any test is looked at.
func init() {
	state := os.Getenv(keeperEnv)
	if state == "" {
		return
	}
	if err := keep(state); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts the servers, tells where they are, and ends them when nobody has used them for a while.
func keep(state string) error {
	if err := os.Unsetenv(keeperEnv); err != nil {
		return err
	}
	idle := defaultIdle
	if text := os.Getenv(idleEnv); text != "" {
		var err error
		if idle, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%s: %w", idleEnv, err)
		}
	}
	alive := flock.New(filepath.Join(state, keeperLock))
	if locked, err := alive.TryLock(); err != nil || !locked {
		return errors.Join(err, errors.New("another keeper is alive"))
	}
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if err := os.WriteFile(filepath.Join(state, keeperPID), pid, 0o600); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)

	// What a killed keeper left is of no use: its databases skipped fsync, and a reboot may have come between.
	dir := filepath.Join(state, stackDir)
	if err := devstack.Remove(dir); err != nil {
		return err
	}
	progress, err := os.OpenFile(filepath.Join(state, progressLog), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	stack, err := devstack.Start(ctx, devstack.Options{
		DataDir:    dir,
		Durability: devstack.Disposable,
		Log:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Progress:   progress,
	})
	if err != nil {
		return err
	}
	if err := publish(state, addresses{stack.DatabaseURL, stack.TemporalAddress, stack.TemporalUIURL}); err != nil {
		return errors.Join(err, stack.Close())
	}
	users := awaitIdle(ctx, filepath.Join(state, usersLock), idle)
	// From here on a newcomer waits for our lock on users, and then finds no keeper.
	err = errors.Join(os.Remove(filepath.Join(state, addressesFile)), stack.Close(), devstack.Remove(dir), alive.Unlock())
	return errors.Join(err, users.Unlock())
}

// publish makes the addresses appear whole.
func publish(state string, at addresses) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	path := filepath.Join(state, addressesFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// awaitIdle returns once no test process was there for the given time, or ctx ended, with the users' lock: exclusively
// held in the first case.
func awaitIdle(ctx context.Context, path string, idle time.Duration) *flock.Flock {
	users := flock.New(path)
	since := time.Now()
	for {
		if free, err := users.TryLock(); err != nil || !free {
			since = time.Now()
		} else if time.Since(since) >= idle {
			return users
		} else if err := users.Unlock(); err != nil {
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return users
		case <-time.After(min(idlePoll, idle)):
		}
	}
}
