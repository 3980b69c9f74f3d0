package config

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const databaseExample = "postgres://user:password@host:5432/mikan"

// checkDatabaseURL returns a sentence that says what is wrong, or "". The parser's own errors quote the URL, and of a
// URL that cannot be read nobody knows which part is the password: no part of it is repeated.
func checkDatabaseURL(s string) string {
	const encode = "percent-encode the characters of the password that mean something in a URL " +
		"(@ is %40, : is %3A, / is %2F, # is %23, ? is %3F, % is %25)"
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return "MIKAN_DATABASE_URL cannot be read as a URL; " + encode + "."
		case u.Scheme != "postgres" && u.Scheme != "postgresql":
			return "MIKAN_DATABASE_URL is not a Postgres URL; set it to something like " + databaseExample + "."
		case u.User == nil && strings.Contains(s, "@"):
			// A / ? or # in a password ends the host, and the rest is taken for a path.
			return "MIKAN_DATABASE_URL names no user before its host although it holds an @; " + encode + "."
		}
	}
	_, err := pgconn.ParseConfig(s)
	var file *fs.PathError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &file):
		return "MIKAN_DATABASE_URL names the file " + strconv.Quote(file.Path) + ", which cannot be read (" +
			file.Err.Error() + "); correct the path."
	default:
		return "MIKAN_DATABASE_URL is not a usable Postgres address; set it to something like " + databaseExample +
			", and " + encode + "."
	}
}

// databasePasswords returns the password in the URL as it is and as it is written, which differ when it is encoded.
func databasePasswords(s string) (plain, written string) {
	if cfg, err := pgconn.ParseConfig(s); err == nil {
		plain = cfg.Password
	}
	if _, rest, found := strings.Cut(s, "://"); found {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			_, written, _ = strings.Cut(rest[:at], ":")
		}
	}
	return plain, written
}

// DatabaseTarget says which database is meant, fit for a log line: name, host and port. "" when none is configured.
func (c Config) DatabaseTarget() string {
	if c.DatabaseURL == "" {
		return ""
	}
	cfg, err := pgconn.ParseConfig(c.DatabaseURL.Reveal())
	if err != nil {
		return ""
	}
	return cfg.Database + " at " + net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
