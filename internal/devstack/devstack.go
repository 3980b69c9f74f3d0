// Package devstack gives one machine the two services that mikan needs, Postgres and Temporal, with nothing installed
// but Go: it takes what the environment names, else what is on the machine, else fetches or builds it, keeps it
// running, and leaves the data where the next start finds it.
//
// What it starts listens on 127.0.0.1 only. A service that dies, by whatever hand, is started again on the same port
// and data. What a killed owner left running is ended by the next Start on the same data directory.
package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

// Durability says what a crash of the machine may cost.
type Durability int

const (
	// Durable loses nothing that was committed. The default.
	Durable Durability = iota
	// Disposable trades the data's survival of a crash of the machine for speed: for tests. What was committed still
	// survives the kill of any process.
	Disposable
)

// Options says where the stack keeps its data and what it may use. The zero value of a field means its default.
type Options struct {
	// DataDir holds everything: databases, passwords, ports, logs. Required; created when missing, and made readable
	// by its owner alone. As root it is also traversable by the group of the user that Postgres runs as.
	DataDir string
	// Namespace is the Temporal namespace, created when missing. Default: TEMPORAL_NAMESPACE, else "default".
	Namespace string
	// SearchAttributes are names of Keyword search attributes that the namespace gets when devstack starts Temporal.
	SearchAttributes []string
	// Durability is Durable unless the data is for tests.
	Durability Durability
	// Log receives starts, ends and restarts of the services. Default: slog.Default().
	Log *slog.Logger
	// Progress receives sentences for the person who waits: a download, a build, a port that was taken. Default: none.
	Progress io.Writer
	// Getenv reads the environment: MIKAN_DATABASE_URL, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, PATH. Default: os.Getenv.
	Getenv func(string) string
}

// withDefaults fills in what was left out and makes the data directory absolute.
func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("no data directory was named")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("the data directory has no absolute path: %w", err)
	}
	o.DataDir = dir
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	o.Progress = &lineWriter{w: o.Progress}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Namespace == "" {
		o.Namespace = o.Getenv("TEMPORAL_NAMESPACE")
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	return o, nil
}

// Stack is a running Postgres and Temporal.
type Stack struct {
	// DatabaseURL is the address of an existing Postgres database, with its password.
	DatabaseURL string
	// TemporalAddress is host:port of Temporal's gRPC frontend.
	TemporalAddress string
	// TemporalNamespace is the namespace to use. It exists when devstack started Temporal.
	TemporalNamespace string
	// TemporalUIURL is where Temporal's web UI is; empty when TEMPORAL_ADDRESS named a server whose UI is not known.
	TemporalUIURL string
	// LogDir holds postgres.log and temporal.log, where devstack started them.
	LogDir string

	lock     *flock.Flock
	services []*service
	closing  sync.Once
	closeErr error
}

// Start returns when both services answer. ctx bounds the start alone; the services run until Close. A second Start on
// a data directory that is in use fails with *InUseError.
func Start(ctx context.Context, options Options) (*Stack, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := openDataDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	stack := &Stack{lock: dir.lock, LogDir: dir.logs(), TemporalNamespace: o.Namespace}
	started, err := stack.start(ctx, o, dir)
	stack.services = started
	if err != nil {
		return nil, errors.Join(err, stack.Close())
	}
	return stack, nil
}

// start launches what the environment does not name, both at once, and returns every service that needs stopping.
func (s *Stack) start(ctx context.Context, o Options, dir *dataDir) ([]*service, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg                 sync.WaitGroup
		postgres, temporal *service
		pgErr, tErr        error
	)
	if s.DatabaseURL = o.Getenv("MIKAN_DATABASE_URL"); s.DatabaseURL == "" {
		wg.Go(func() {
			s.DatabaseURL, postgres, pgErr = startPostgres(ctx, o, dir)
			if pgErr != nil {
				pgErr = fmt.Errorf("Postgres did not start: %w", pgErr)
				cancel()
			}
		})
	}
	if s.TemporalAddress = o.Getenv("TEMPORAL_ADDRESS"); s.TemporalAddress == "" {
		wg.Go(func() {
			s.TemporalAddress, s.TemporalUIURL, temporal, tErr = startTemporal(ctx, o, dir)
			if tErr != nil {
				tErr = fmt.Errorf("Temporal did not start: %w", tErr)
				cancel()
			}
		})
	}
	wg.Wait()
	var services []*service
	for _, svc := range []*service{postgres, temporal} {
		if svc != nil {
			services = append(services, svc)
		}
	}
	// The first failure cancels the other start; only the cause is of interest.
	if errors.Is(pgErr, context.Canceled) && tErr != nil {
		pgErr = nil
	}
	if errors.Is(tErr, context.Canceled) && pgErr != nil {
		tErr = nil
	}
	return services, errors.Join(pgErr, tErr)
}

// Env is what a process needs in its environment to use the stack.
func (s *Stack) Env() map[string]string {
	return map[string]string{
		"MIKAN_DATABASE_URL": s.DatabaseURL,
		"TEMPORAL_ADDRESS":   s.TemporalAddress,
		"TEMPORAL_NAMESPACE": s.TemporalNamespace,
	}
}

// Close stops the services in order, Temporal and Postgres at once, and gives up the data directory. It is safe to
// call twice.
func (s *Stack) Close() error {
	s.closing.Do(func() {
		errs := make([]error, len(s.services))
		var wg sync.WaitGroup
		for i, svc := range s.services {
			wg.Go(func() { errs[i] = svc.stop() })
		}
		wg.Wait()
		s.closeErr = errors.Join(append(errs, s.lock.Unlock())...)
	})
	return s.closeErr
}

// lineWriter lets several services write whole lines to one writer.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// databaseURL builds a Postgres URL; the password may hold any character.
func databaseURL(user, password string, port int, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     loopbackAddress(port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}
