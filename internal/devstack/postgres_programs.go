package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
	"github.com/gofrs/flock"
)

const (
	// oldestPostgres is the oldest major version that the Postgres project still supports.
	oldestPostgres = 14
	// downloadedPostgres is what is fetched where the machine has none.
	downloadedPostgres = embeddedpostgres.V17
)

// postgresPlaces are where packages put the programs, newest version first within each pattern.
var postgresPlaces = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // the Postgres project's RPMs
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew on Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

// findPostgres returns the directory of initdb and postgres. An existing cluster needs programs of its own major
// version; a new one (version 0) takes the first that is recent enough.
func findPostgres(ctx context.Context, o Options, account account, version int) (string, error) {
	for _, bin := range postgresCandidates(o.Getenv("PATH")) {
		major, err := postgresMajor(ctx, account, bin)
		if err != nil {
			o.Log.Debug("passed over", "postgres", bin, "error", err)
			continue
		}
		if major == version || version == 0 && major >= oldestPostgres {
			return bin, nil
		}
	}
	return downloadPostgres(ctx, o, account, version)
}

// postgresCandidates lists every directory that has both programs, those of PATH first.
func postgresCandidates(path string) []string {
	var found []string
	add := func(dir string) {
		// Links in PATH lead to the place beside which Postgres finds its other files.
		program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil {
			return
		}
		bin := filepath.Dir(program)
		if _, err := exec.LookPath(filepath.Join(bin, "initdb")); err != nil || !filepath.IsAbs(bin) {
			return
		}
		if !slices.Contains(found, bin) {
			found = append(found, bin)
		}
	}
	for _, dir := range filepath.SplitList(path) {
		add(dir)
	}
	for _, pattern := range postgresPlaces {
		dirs, _ := filepath.Glob(pattern) // fails for malformed patterns only
		slices.SortFunc(dirs, func(a, b string) int { return lastNumber(b) - lastNumber(a) })
		for _, dir := range dirs {
			add(dir)
		}
	}
	return found
}

var number = regexp.MustCompile(`\d+`)

// lastNumber returns the last whole number in s; 0 when it has none.
func lastNumber(s string) int {
	all := number.FindAllString(s, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1]) // 0 when it does not fit
	return n
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// postgresMajor asks a program for its version, as the user that will run it.
func postgresMajor(ctx context.Context, account account, bin string) (int, error) {
	out, err := account.commandContext(ctx, "/", filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	found := postgresVersion.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("postgres --version printed %q", bytes.TrimSpace(out))
	}
	return strconv.Atoi(string(found[1]))
}

// downloads says which release embedded-postgres has for a major version.
var downloads = map[int]embeddedpostgres.PostgresVersion{
	0:  downloadedPostgres,
	14: embeddedpostgres.V14,
	15: embeddedpostgres.V15,
	16: embeddedpostgres.V16,
	17: embeddedpostgres.V17,
	18: embeddedpostgres.V18,
}

// downloadPostgres fetches the programs once and returns their directory.
func downloadPostgres(ctx context.Context, o Options, account account, version int) (string, error) {
	release, ok := downloads[version]
	if !ok {
		return "", fmt.Errorf("the database was made by Postgres %d, which is neither on this machine nor to be had for download; install it or set MIKAN_DATABASE_URL", version)
	}
	cache, err := postgresCache(account)
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "postgres-"+string(release))
	bin := filepath.Join(home, "bin")
	lock := flock.New(home + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return "", fmt.Errorf("waiting for another download of Postgres: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	complete := filepath.Join(home, "complete")
	if _, err := os.Stat(complete); err == nil {
		return bin, nil
	}
	_, _ = fmt.Fprintf(o.Progress, "downloading Postgres %s (first start only)\n", release)
	if err := fetchPostgres(home, release); err != nil {
		return "", fmt.Errorf("no Postgres on this machine, and its download failed (%w); install Postgres %d or newer, or set MIKAN_DATABASE_URL", err, oldestPostgres)
	}
	return bin, os.WriteFile(complete, nil, 0o644)
}

// fetchPostgres has embedded-postgres download and unpack a release into home. The library offers that only as part of
// a start; the cluster that it starts is thrown away, and as root, where the start itself must fail, only the unpacked
// programs count.
func fetchPostgres(home string, release embeddedpostgres.PostgresVersion) error {
	if err := os.RemoveAll(home); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mikan-postgres-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	port, err := freePort(postgresPort + portsTried)
	if err != nil {
		return err
	}
	var output bytes.Buffer
	db := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(release).
		Port(uint32(port)).
		BinariesPath(home).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "run")).
		DataPath(filepath.Join(scratch, "data")).
		StartParameters(map[string]string{"unix_socket_directories": scratch}).
		Logger(&output))
	startErr := db.Start()
	if startErr == nil {
		startErr = db.Stop()
	}
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(home, "bin", program)); err != nil {
			return errors.Join(startErr, err)
		}
	}
	return nil
}

// postgresCache is where downloads are kept: for root a place that the account can reach.
func postgresCache(account account) (string, error) {
	cache := "/var/cache/mikan"
	mode := os.FileMode(0o755)
	if account.other == nil {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache, mode = filepath.Join(user, "mikan"), 0o700
	} else if runtime.GOOS == "darwin" {
		cache = "/Library/Caches/mikan"
	}
	return cache, os.MkdirAll(cache, mode)
}
