package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	postgresUser     = "mikan"
	postgresDatabase = "mikan"

	// invalidPassword is the SQLSTATE of a refused password.
	invalidPassword = "28P01"
)

// postgresSettings suit a development database of one machine.
var postgresSettings = map[string]string{
	"listen_addresses": loopback,
	// No socket file: the password is the only way in, and a path could be too long for one (107 bytes).
	"unix_socket_directories": "",
	"max_connections":         "500",
	"shared_buffers":          "128MB",
	"max_wal_size":            "1GB",
	"checkpoint_timeout":      "15min",
	"wal_compression":         "on",
	"random_page_cost":        "1.1",
	// Compiling takes longer than the short queries it would speed up.
	"jit":                 "off",
	"timezone":            "UTC",
	"log_timezone":        "UTC",
	"password_encryption": "scram-sha-256",
	"cluster_name":        "mikan",
	// What people wrote must not get into logs: no failing statement, no DETAIL with a row's values, no parameters.
	"log_error_verbosity":               "terse",
	"log_min_error_statement":           "panic",
	"log_parameter_max_length":          "0",
	"log_parameter_max_length_on_error": "0",
}

// postgresDurability is what each promise costs. Without fsync the system still has what a killed server wrote, so
// commits stay synchronous in both.
var postgresDurability = map[Durability]map[string]string{
	Durable:    {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"},
	Disposable: {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on"},
}

// startPostgres creates the cluster at the first start, launches it and returns the database's URL.
func startPostgres(ctx context.Context, o Options, dir *dataDir) (string, *service, error) {
	account, err := postgresAccount(dir.postgres())
	if err != nil {
		return "", nil, err
	}
	cluster, err := placeCluster(o, dir, account)
	if err != nil {
		return "", nil, err
	}
	version, err := clusterVersion(cluster)
	if err != nil {
		return "", nil, err
	}
	bin, err := findPostgres(ctx, o, account, version)
	if err != nil {
		return "", nil, err
	}
	svc := &service{
		name:      "postgres",
		dir:       dir,
		log:       o.Log,
		interrupt: syscall.SIGINT, // "fast": ends sessions instead of waiting for them
		leftovers: func() ([]process, error) {
			found, err := runningWith("-D", cluster)
			if err != nil {
				return nil, err
			}
			orphans, err := postgresIn(cluster)
			return append(found, orphans...), err
		},
	}
	if err := svc.endLeftovers(); err != nil {
		return "", nil, err
	}
	if version != 0 && dir.recall().PostgresPassword == "" {
		return "", nil, fmt.Errorf("%s holds a database whose password is gone; restore %s, or use a new data directory",
			cluster, filepath.Join(dir.path, memoryFile))
	}
	if version == 0 {
		if err := createCluster(ctx, o, dir, bin, cluster, account); err != nil {
			return "", nil, err
		}
	}
	password := dir.recall().PostgresPassword
	var port int
	svc.command = func() *exec.Cmd {
		args := []string{"-D", cluster, "-p", strconv.Itoa(port)}
		for _, settings := range []map[string]string{postgresSettings, postgresDurability[o.Durability]} {
			for name, value := range settings {
				args = append(args, "-c", name+"="+value)
			}
		}
		if runtime.GOOS == "linux" {
			// After a kill Postgres syncs each of its thousand files, which takes seconds; this syncs them at once.
			args = append(args, "-c", "recovery_init_sync_method=syncfs")
		}
		return account.command(cluster, filepath.Join(bin, "postgres"), args...)
	}
	svc.ready = func(ctx context.Context) error {
		return createDatabase(ctx, databaseURL(postgresUser, password, port, "postgres"))
	}
	err = onFreePorts(func() ([]int, error) {
		var err error
		if port, err = choosePort(o, dir.recall().PostgresPort, postgresPort, "Postgres"); err != nil {
			return nil, err
		}
		if err := dir.remember(func(m *memory) { m.PostgresPort = port }); err != nil {
			return nil, err
		}
		return []int{port}, svc.start(ctx)
	})
	if err != nil {
		return "", nil, err
	}
	return databaseURL(postgresUser, password, port, postgresDatabase), svc, nil
}

// createDatabase creates mikan's database when it is missing, and so tells whether the server answers.
func createDatabase(ctx context.Context, maintenance string) error {
	conn, err := pgx.Connect(ctx, maintenance)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == invalidPassword {
		return &permanentError{err}
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, postgresDatabase).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{postgresDatabase}.Sanitize())
	return err
}

// clusterVersion returns the major version of the cluster in dir; 0 when there is none yet.
func clusterVersion(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s holds no Postgres version", filepath.Join(dir, "PG_VERSION"))
	}
	return version, nil
}

// locales are tried in order. Only some systems have a UTF-8 locale that sorts by code point.
var locales = []string{"C.UTF-8", "en_US.UTF-8", "C"}

// createCluster runs initdb beside the final place and renames the result, so that a kill in the middle leaves no half
// of a cluster. The password is stored before it is used.
func createCluster(ctx context.Context, o Options, dir *dataDir, bin, cluster string, account account) error {
	_, _ = fmt.Fprintln(o.Progress, "creating the database (first start only)")
	password := rand.Text()
	if err := dir.remember(func(m *memory) { m.PostgresPassword = password }); err != nil {
		return err
	}
	var failures []error
	for _, locale := range locales {
		building, err := account.freshDir(cluster + ".new")
		if err != nil {
			return err
		}
		passwordFile := filepath.Join(building, "password")
		if err := account.writeFile(passwordFile, password+"\n"); err != nil {
			return err
		}
		data := filepath.Join(building, "data")
		args := []string{
			"-D", data, "-U", postgresUser, "--pwfile", passwordFile, "--auth", "scram-sha-256",
			"--encoding", "UTF8", "--locale", locale, "--no-instructions",
		}
		if o.Durability == Disposable {
			args = append(args, "--no-sync")
		}
		out, err := account.commandContext(ctx, building, filepath.Join(bin, "initdb"), args...).CombinedOutput()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out))))
			continue
		}
		// An earlier start may have been killed between initdb's first file and PG_VERSION; there is nothing to keep.
		if err := os.RemoveAll(cluster); err != nil {
			return err
		}
		return errors.Join(os.Rename(data, cluster), os.RemoveAll(building))
	}
	return errors.Join(failures...)
}
