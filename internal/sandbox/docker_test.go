package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/sandbox"
)

// dockerClient puts a docker command in front of the search path that writes its arguments to the returned file, one a
// line, and then behaves as body says. What it cannot show, how a daemon carries the arguments out, needs a daemon.
func dockerClient(t *testing.T, body string) (arguments string) {
	t.Helper()
	bin := t.TempDir()
	arguments = filepath.Join(bin, "arguments")
	script := "#!/bin/sh\n[ \"$1\" = run ] && printf '%s\\n' \"$@\" > " + arguments + "\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return arguments
}

// runContained starts what the container would start, found behind --entrypoint and the image.
const runContained = `while [ "$1" != --entrypoint ]; do shift; done
entry=$2; shift 3; exec "$entry" "$@"`

func TestDockerSaysHowToMend(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"no daemon", "echo 'Cannot connect to the Docker daemon' >&2; exit 1", "start it"},
		{"no image", `[ "$1" = version ] && exit 0; echo 'docker: Error response from daemon: pull access denied' >&2; exit 125`, "pull access denied"},
	} {
		dockerClient(t, test.body)
		s, err := sandbox.Parse(sandbox.Config{Spec: "docker:debian"})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Probe(t.Context())
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestDockerConfinesTheContainer(t *testing.T) {
	t.Setenv("MIKAN_SECRET_KEY", "canary-5d2e9b")
	arguments := dockerClient(t, runContained)
	dir := filepath.Join(t.TempDir(), "work,space", "office")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Parse(sandbox.Config{Spec: "docker:debian:12"})
	if err != nil {
		t.Fatal(err)
	}
	var group sandbox.Group
	var out bytes.Buffer
	exit, err := s.Run(t.Context(), sandbox.Command{
		Script: "echo \"it's $((6*7))\"; exit 3", Dir: dir, Output: &out,
	})
	if err != nil || exit.Code != 3 || out.String() != "it's 42\n" {
		t.Errorf("exit %+v, error %v, output %q", exit, err, out.String())
	}
	exit, err = s.Run(t.Context(), sandbox.Command{Script: "exit 125", Dir: dir, Started: func(g sandbox.Group) { group = g }})
	if err != nil || exit.Code != 125 {
		t.Errorf("a command's own exit code 125 became exit %+v, error %v", exit, err)
	}
	written, err := os.ReadFile(arguments)
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(string(written), "\n")
	for _, pair := range [][2]string{
		{"--network", "none"}, {"--cap-drop", "ALL"}, {"--security-opt", "no-new-privileges"}, {"--workdir", dir},
		{"--name", group.Container}, {"--env", "HOME=" + dir},
		{"--mount", `type=bind,"source=` + dir + `","target=` + dir + `"`},
	} {
		if !slices.Contains(pairs(args), pair) {
			t.Errorf("docker run lacks %s %s", pair[0], pair[1])
		}
	}
	if !slices.Contains(args, "--rm") || !slices.Contains(args, "--interactive") || group.Container == "" {
		t.Errorf("the container is not removable: %q, container %q", args, group.Container)
	}
	if strings.Contains(string(written), "canary") {
		t.Error("a variable of the worker is passed to the container")
	}
}

func pairs(args []string) [][2]string {
	var out [][2]string
	for i := range len(args) - 1 {
		out = append(out, [2]string{args[i], args[i+1]})
	}
	return out
}

func TestACancelledContainerIsRemoved(t *testing.T) {
	removed := filepath.Join(t.TempDir(), "removed")
	dockerClient(t, `if [ "$1" = rm ]; then echo "$3" > `+removed+`; exit 0; fi
cat > /dev/null; exit 137`)
	s, err := sandbox.Parse(sandbox.Config{Spec: "docker:debian"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sandbox.Group
	_, err = s.Run(ctx, sandbox.Command{Script: "sleep 1000", Dir: office(t), Started: func(g sandbox.Group) {
		group = g
		cancel()
	}})
	if err != context.Canceled {
		t.Errorf("the error is %v", err)
	}
	if name, err := os.ReadFile(removed); strings.TrimSpace(string(name)) != group.Container {
		t.Errorf("container %q was removed (%v), want %q", name, err, group.Container)
	}
}

// The container's first process is tried as process 1 of a real process namespace, by every shell there is.
func TestTheContainersFirstProcessEndsAll(t *testing.T) {
	bwrapOrSkip(t, "bwrap")
	for _, shell := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		entry := path
		if shell == "busybox" {
			entry += " sh"
		}
		dockerClient(t, `[ "$1" = run ] || exit 0
while [ "$1" != --entrypoint ]; do [ "$1" = --workdir ] && dir=$2; shift; done; shift 3
exec bwrap --unshare-pid --as-pid-1 --bind / / --proc /proc --dev /dev --chdir "$dir" -- `+entry+` "$@"`)
		s, err := sandbox.Parse(sandbox.Config{Spec: "docker:debian"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		exit, err := s.Run(t.Context(), sandbox.Command{Script: "echo $PPID; cat; exit 5", Dir: office(t), Output: &out})
		if err != nil || exit.Code != 5 || out.String() != "1\n" {
			t.Errorf("%s: exit %+v, error %v, output %q", shell, exit, err, out.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		dir := office(t)
		script := "trap '' TERM; (sleep 1000 & ); echo ready; while :; do sleep 1000; done"
		exit, err = s.Run(ctx, sandbox.Command{Script: script, Dir: dir, Output: onWrite(cancel)})
		if err != context.Canceled || exit.Code == 0 {
			t.Errorf("%s: cancelled: exit %+v, error %v", shell, exit, err)
		}
		eventually(t, "the container is empty", func() bool { return len(processesIn(t, dir)) == 0 })
	}
}
