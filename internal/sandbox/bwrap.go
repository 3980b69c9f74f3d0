package sandbox

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/geminixiang/mikan/internal/fault"
)

// Bwrap runs commands with bubblewrap: the system's programs read-only, the office read-write, a private /tmp and /dev,
// and process, user, IPC, host name and (unless shared) network namespaces of their own. What is not listed does not
// exist inside: homes, other offices, databases' files and sockets.
type Bwrap struct {
	network Network
	hide    []string
}

// systemPaths is what of the machine a command sees.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
	"/nix/store", "/run/current-system", "/gnu/store", "/home/linuxbrew/.linuxbrew",
}

// systemFiles is what of /etc a command sees: what programs need to run, nothing in which services keep passwords.
var systemFiles = []string{
	"alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "gitconfig", "group", "hosts", "inputrc", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "login.defs", "lsb-release", "magic", "mailcap", "manpath.config", "mime.types", "nsswitch.conf",
	"os-release", "passwd", "pki", "profile", "protocols", "python3", "resolv.conf", "services", "shells", "ssl",
	"terminfo", "timezone", "vim",
}

// Name implements Sandbox.
func (b *Bwrap) Name() string {
	if b.network == SharedNetwork {
		return "bwrap+net"
	}
	return "bwrap"
}

// Describe implements Sandbox.
func (b *Bwrap) Describe() string {
	return "Commands run in a sandbox: only the working directory and /tmp are writable, and /tmp is empty at the start " +
		"of each command. " + b.network.describe()
}

func (n Network) describe() string {
	if n == SharedNetwork {
		return "The network is reachable."
	}
	return "There is no network."
}

// Probe implements Sandbox.
func (b *Bwrap) Probe(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fault.New(fault.Unavailable, "bwrap exists on Linux only; set MIKAN_SANDBOX to docker:<image> or host")
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		return fault.New(fault.Unavailable,
			"bwrap is not installed; install the package bubblewrap, or set MIKAN_SANDBOX to docker:<image> or host")
	}
	if err := probe(ctx, b, temporaryOffice); err != nil {
		return fault.Wrap(fault.Unavailable, err, "bwrap does not work here; allow unprivileged user namespaces "+
			"(sysctl kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0, in a "+
			"container a seccomp profile that permits them), or set MIKAN_SANDBOX to docker:<image> or host")
	}
	return nil
}

func temporaryOffice() (string, func(), error) {
	workspace, err := os.MkdirTemp("", "mikan-probe-")
	if err != nil {
		return "", nil, err
	}
	office := filepath.Join(workspace, "office")
	return office, func() { _ = os.RemoveAll(workspace) }, os.Mkdir(office, 0o700)
}

// Run implements Sandbox.
func (b *Bwrap) Run(ctx context.Context, command Command) (Exit, error) {
	args, err := b.arguments(command.Dir)
	if err != nil {
		return Exit{}, err
	}
	call := newCall()
	argv := append([]string{"bwrap"}, args...)
	return run(ctx, job{
		argv: append(argv, "--", "/bin/sh", "-c", gated, "sandbox", command.Script),
		dir:  "/",
		env:  environment(command.Dir, call),
		call: call,
		terminate: func(p *process) {
			// The command and bwrap's process 1 form a group of their own; process 1 ignores the signal.
			if inner := p.inner.Load(); inner != 0 {
				_ = syscall.Kill(-int(inner), syscall.SIGTERM)
			} else {
				p.killGroup()
			}
		},
		failed: neverReady,
	}, command)
}

func (b *Bwrap) arguments(office string) ([]string, error) {
	if info, err := os.Lstat(office); err == nil && !info.IsDir() {
		return nil, fault.New(fault.Forbidden, "the office's directory %s is not a directory", office)
	}
	real, err := filepath.EvalSymlinks(office)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the office's directory is not there")
	}
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox", "--info-fd", "4",
	}
	if b.network == NoNetwork {
		args = append(args, "--unshare-net")
	}
	var visible []string
	for _, path := range systemPaths {
		args, visible = showSystem(args, visible, path)
	}
	for _, name := range systemFiles {
		if source, err := filepath.EvalSymlinks("/etc/" + name); err == nil {
			args = append(args, "--ro-bind", source, "/etc/"+name)
		}
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/run",
		"--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run")

	workspace := filepath.Dir(office)
	hidden := append([]string{workspace, filepath.Dir(real)}, b.hide...)
	if home, err := os.UserHomeDir(); err == nil {
		hidden = append(hidden, home)
	}
	args = append(args, masks(hidden, visible)...)
	args = append(args, "--bind", real, office)
	shared := filepath.Join(workspace, "MEMORY.md")
	if info, err := os.Lstat(shared); err == nil && info.Mode().IsRegular() {
		args = append(args, "--ro-bind", shared, shared)
	}
	return append(args, "--remount-ro", "/", "--chdir", office), nil
}

// showSystem binds one path of the system, as a link where it is one (/bin is usr/bin on most).
func showSystem(args, visible []string, path string) ([]string, []string) {
	info, err := os.Lstat(path)
	if err != nil {
		return args, visible
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err := os.Readlink(path); err == nil {
			return append(args, "--symlink", target, path), visible
		}
	}
	return append(args, "--ro-bind", path, path), append(visible, path)
}

// masks covers those hidden paths that lie in what is visible; all others do not exist inside.
func masks(hidden, visible []string) []string {
	var args []string
	for _, path := range hidden {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		info, err := os.Stat(path)
		if err != nil || !within(path, visible) {
			continue
		}
		if info.IsDir() {
			args = append(args, "--tmpfs", path)
		} else {
			args = append(args, "--ro-bind", "/dev/null", path)
		}
	}
	return args
}

func within(path string, roots []string) bool {
	for _, root := range roots {
		if strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}
