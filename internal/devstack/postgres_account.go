package devstack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// account is the operating system user that Postgres runs as: the zero value is the user who runs us. Postgres refuses
// to run as root, so root takes another.
type account struct {
	uid, gid uint32
	other    *syscall.Credential // nil: ourselves
}

// postgresAccount picks the user: the owner of an existing cluster, else for root `postgres` if there is one, else
// `nobody`.
func postgresAccount(cluster string) (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	if info, err := os.Stat(cluster); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			return otherAccount(owner.Uid, owner.Gid), nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return otherAccount(uint32(uid), uint32(gid)), nil
		}
	}
	return account{}, errors.New("Postgres cannot run as root, and this machine has neither a user postgres nor a user nobody; set MIKAN_DATABASE_URL or run as an ordinary user")
}

func otherAccount(uid, gid uint32) account {
	return account{uid: uid, gid: gid, other: &syscall.Credential{Uid: uid, Gid: gid}}
}

// command makes a command that runs as the account, in dir.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	return a.commandContext(context.Background(), dir, program, args...)
}

func (a account) commandContext(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if a.other != nil {
		credential := *a.other
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &credential}
		// Root's HOME is not readable to it, and none of root's secrets are its business.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	}
	return cmd
}

// freshDir makes an empty directory that only the account can use.
func (a account) freshDir(path string) (string, error) {
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", err
	}
	return path, a.own(path)
}

// writeFile writes a new file that only the account can read.
func (a account) writeFile(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return a.own(path)
}

func (a account) own(path string) error {
	if a.other == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

const (
	// clustersOfRoot is where root's clusters are when the data directory is out of the account's reach. That of a
	// data directory under the system's temporary directory is there too.
	clustersOfRoot = "/var/lib/mikan"
	// clusterPrefix begins the names of such directories.
	clusterPrefix = "mikan-postgres-"
	// clusterOwnerFile, in one, holds the path of its data directory.
	clusterOwnerFile = "data-directory"
)

// placeCluster returns the directory of the Postgres cluster, by its real path, and sees to it that the account can
// get there. For an ordinary user it is the directory postgres in the data directory. For root the data directory's
// group becomes the account's and may traverse it; where a directory above does not let the account pass (as /root),
// the cluster is elsewhere and the data directory has a link to it.
func placeCluster(o Options, dir *dataDir, account account) (string, error) {
	cluster := dir.postgres()
	if account.other == nil {
		return cluster, nil
	}
	if target, err := os.Readlink(cluster); err == nil {
		return target, nil
	}
	if account.reaches(filepath.Dir(dir.path)) {
		info, err := os.Stat(dir.path)
		if err != nil {
			return "", err
		}
		if !account.traverses(info) {
			if err := errors.Join(os.Chown(dir.path, -1, int(account.gid)), os.Chmod(dir.path, 0o710)); err != nil {
				return "", err
			}
		}
		return cluster, nil
	}
	if _, err := os.Lstat(cluster); err == nil {
		return "", fmt.Errorf("the user of Postgres (uid %d) can no longer reach %s; make the directories above it traversable", account.uid, cluster)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return placeElsewhere(o, dir, account)
}

func placeElsewhere(o Options, dir *dataDir, account account) (string, error) {
	base := clustersOfRoot
	temporary, err := filepath.EvalSymlinks(os.TempDir())
	if err == nil && strings.HasPrefix(dir.path, temporary+string(filepath.Separator)) {
		base = temporary
		dropAbandoned(o, base)
	} else if err := os.MkdirAll(base, 0o711); err != nil {
		return "", err
	}
	if !account.reaches(base) {
		return "", fmt.Errorf("the user of Postgres (uid %d) can reach neither %s nor %s; name another place with --data-dir", account.uid, dir.path, base)
	}
	home, err := os.MkdirTemp(base, clusterPrefix)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, clusterOwnerFile), []byte(dir.path+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := account.own(home); err != nil {
		return "", err
	}
	target := filepath.Join(home, "data")
	_, _ = fmt.Fprintf(o.Progress, "the database is in %s, since Postgres cannot run as root and %s is root's alone\n", home, filepath.Dir(dir.path))
	return target, os.Symlink(target, dir.postgres())
}

// dropAbandoned removes the clusters of temporary data directories that are gone. Others are never removed: their data
// directory may only be out of sight.
func dropAbandoned(o Options, base string) {
	homes, _ := filepath.Glob(filepath.Join(base, clusterPrefix+"*")) // fails for malformed patterns only
	for _, home := range homes {
		note := filepath.Join(home, clusterOwnerFile)
		info, err := os.Lstat(note)
		if err != nil {
			continue
		}
		// Anybody can make such a directory in the temporary directory, but not with a file of root's.
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 || !info.Mode().IsRegular() {
			continue
		}
		text, err := os.ReadFile(note)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(strings.TrimSpace(string(text)), "postgres")); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.RemoveAll(home); err != nil {
			o.Log.Warn("an abandoned database cannot be removed", "directory", home, "error", err)
		}
	}
}

// reaches tells whether the account may pass through path and every directory above it.
func (a account) reaches(path string) bool {
	for {
		info, err := os.Stat(path)
		if err != nil || !a.traverses(info) {
			return false
		}
		parent := filepath.Dir(path)
		if parent == path {
			return true
		}
		path = parent
	}
}

// traverses tells whether the account may enter a directory, by its owner, group and mode.
func (a account) traverses(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	switch {
	case owner.Uid == a.uid:
		return mode&0o100 != 0
	case owner.Gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}
