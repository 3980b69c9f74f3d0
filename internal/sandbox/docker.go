package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// Docker runs each command in a fresh container that sees the office and nothing else of the machine.
type Docker struct {
	network Network
	image   string
}

// contained is the container's first process. It does what gated does, and holds on to standard input, which ends when
// the command is cancelled and when the worker or the docker client dies: all processes of the container then get
// SIGTERM and a second later SIGKILL. (kill -1 spares the caller and process 1.)
const contained = `read -r go || exit 125
shell=$(command -v bash) || shell=/bin/sh
exec 5<&0
"$shell" -c "$1" "$shell" </dev/null 5<&- &
command=$!
( while read -r word; do :; done; kill -TERM -1; sleep 1; kill -KILL -1 ) <&5 >/dev/null 2>&1 &
wait "$command"`

// dockerFailed is docker run's exit code for its own failures. A command may exit with it too, but does not say
// "docker: ..." like the client.
const dockerFailed = 125

// Name implements Sandbox.
func (d *Docker) Name() string {
	if d.network == SharedNetwork {
		return "docker+net:" + d.image
	}
	return "docker:" + d.image
}

// Describe implements Sandbox.
func (d *Docker) Describe() string {
	return "Commands run in a fresh container of the image " + d.image +
		"; only what is written to the working directory lasts. " + d.network.describe()
}

// Probe implements Sandbox.
func (d *Docker) Probe(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return fault.New(fault.Unavailable,
			"docker is not installed; install it, or set MIKAN_SANDBOX to bwrap or host")
	}
	version := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}")
	version.Env = clientEnvironment()
	if out, err := version.CombinedOutput(); err != nil {
		return fault.Wrap(fault.Unavailable, errors.New(strings.TrimSpace(string(out))),
			"the Docker daemon does not answer; start it or set DOCKER_HOST, or set MIKAN_SANDBOX to bwrap or host")
	}
	if err := probe(ctx, d, temporaryOffice); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the image %s cannot run commands; see that it can be pulled, has "+
			"/bin/sh, and that the daemon can mount directories of this machine", d.image)
	}
	return nil
}

// Run implements Sandbox.
func (d *Docker) Run(ctx context.Context, command Command) (Exit, error) {
	call := newCall()
	name := "mikan-" + call
	return run(ctx, job{
		argv:      append([]string{"docker"}, d.arguments(name, call, command)...),
		dir:       "/",
		env:       clientEnvironment(),
		call:      call,
		container: name,
		watch:     startWatcher,
		terminate: func(p *process) { _ = p.gate.Close() },
		cleanUp:   func() { _ = removeContainer(name) },
		failed: func(p *process) bool {
			return exitCode(p.cmd.ProcessState) == dockerFailed && bytes.Contains(p.head.Bytes(), []byte("docker: "))
		},
	}, command)
}

func (d *Docker) arguments(name, call string, command Command) []string {
	network := "none"
	if d.network == SharedNetwork {
		network = "bridge"
	}
	args := []string{
		"run", "--rm", "--interactive", "--name", name, "--label", "mikan.sandbox=command",
		"--network", network, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "1024",
		"--hostname", "sandbox", "--user", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		"--mount", "type=bind," + mountField("source", command.Dir) + "," + mountField("target", command.Dir),
		"--workdir", command.Dir,
	}
	shared := filepath.Join(filepath.Dir(command.Dir), "MEMORY.md")
	if info, err := os.Lstat(shared); err == nil && info.Mode().IsRegular() {
		args = append(args, "--mount",
			"type=bind,readonly,"+mountField("source", shared)+","+mountField("target", shared))
	}
	for _, entry := range environment(command.Dir, call) {
		// The image knows its own search path.
		if !strings.HasPrefix(entry, "PATH=") {
			args = append(args, "--env", entry)
		}
	}
	return append(args, "--entrypoint", "/bin/sh", d.image, "-c", contained, "sandbox", command.Script)
}

// mountField quotes a field as --mount's comma-separated format wants it.
func mountField(key, value string) string {
	field := key + "=" + value
	if strings.ContainsAny(field, `,"`) {
		field = `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
	}
	return field
}

// clientEnvironment is what the docker client needs of the worker's environment; nothing of it reaches the container.
func clientEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == "PATH" || name == "HOME" || name == "XDG_RUNTIME_DIR" || strings.HasPrefix(name, "DOCKER_") {
			env = append(env, entry)
		}
	}
	return env
}

// removeTimeout bounds the removal of a container, which is the second line of defence.
const removeTimeout = 5 * time.Second

func removeContainer(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", "rm", "--force", name)
	cmd.Env = clientEnvironment()
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "No such container") {
		return fault.Wrap(fault.Unavailable, err, "container %s could not be removed", name)
	}
	return nil
}
