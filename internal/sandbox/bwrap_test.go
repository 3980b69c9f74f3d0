package sandbox_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/sandbox"
)

func TestBwrapShowsTheOfficeOnly(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	data := filepath.Join(base, "data")
	workspace := filepath.Join(base, "workspace")
	dir := filepath.Join(workspace, "v1-slack-c1-0000000000000000")
	const canary = "canary-77aa0c"
	files := map[string]string{
		filepath.Join(data, "dev.env"):              canary,
		filepath.Join(workspace, "other", "secret"): canary,
		filepath.Join(workspace, "unrelated.txt"):   canary,
		filepath.Join(workspace, "MEMORY.md"):       "shared memory\n",
		filepath.Join(dir, "own"):                   "own\n",
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(workspace, "other", "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s := bwrapOrSkip(t, "bwrap", data)

	out, _ := runScript(t, s, dir, "cat "+data+"/dev.env "+workspace+"/other/secret "+workspace+"/unrelated.txt link; "+
		"ls -a "+workspace+" "+base+"; grep -r "+canary+" /tmp /var /etc /run /home /root /srv 2>/dev/null; true")
	if strings.Contains(out, canary) || strings.Contains(out, "other\n") {
		t.Errorf("something outside of the office can be read:\n%s", out)
	}
	if out, code := runScript(t, s, dir, "cat own ../MEMORY.md"); code != 0 || out != "own\nshared memory\n" {
		t.Errorf("the office and the shared memory read as %q (exit %d)", out, code)
	}
	for _, script := range []string{
		"echo x > ../MEMORY.md", "echo x > " + workspace + "/new/file", "echo x > /usr/new", "echo x > /etc/passwd", "echo x > /new",
		"mkdir /home/x", "mount -t tmpfs x /mnt", "umount /usr", "chroot / true", "cat /etc/shadow", "ls /root",
		"kill -0 " + strings.Repeat("9", 4), "mknod disk b 8 0",
	} {
		if out, code := runScript(t, s, dir, script); code == 0 {
			t.Errorf("%q works inside: %s", script, out)
		}
	}
}

func TestBwrapSeesOnlyItsOwnProcesses(t *testing.T) {
	t.Parallel()
	s := bwrapOrSkip(t, "bwrap")
	out, _ := runScript(t, s, office(t), "ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; hostname; ls /dev")
	lines := strings.Split(out, "\n")
	if len(strings.TrimSpace(lines[0])) > 1 || lines[1] != "bwrap" {
		t.Errorf("foreign processes are visible:\n%s", out)
	}
	if strings.Contains(out, "sda") || strings.Contains(out, "vda") || strings.Contains(out, "kmsg") {
		t.Errorf("the machine's devices are visible:\n%s", out)
	}
}

func TestServicesOfTheMachineAreOutOfReach(t *testing.T) {
	t.Parallel()
	s := bwrapOrSkip(t, "bwrap")
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash to open a connection")
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// Postgres listens on such a socket too; a network namespace alone does not hide it.
	sockets := t.TempDir()
	unix, err := net.Listen("unix", filepath.Join(sockets, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()

	reach := "exec 5<>/dev/tcp/127.0.0.1/" + port
	if _, code := runScript(t, s, office(t), reach); code == 0 {
		t.Error("a port on the machine's loopback address is reachable")
	}
	if _, code := runScript(t, s, office(t), "test -e "+unix.Addr().String()); code == 0 {
		t.Error("a Unix socket of the machine is reachable")
	}
	// The same command with the network shared on purpose proves that the test can fail.
	shared := bwrapOrSkip(t, "bwrap+net")
	if out, code := runScript(t, shared, office(t), reach); code != 0 {
		t.Errorf("bwrap+net has no network: %s", out)
	}
}

func TestBwrapHidesWhatLiesAmongTheSystemsFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a directory under /opt")
	}
	base, err := os.MkdirTemp("/opt", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir := filepath.Join(base, "workspace", "office")
	hidden := []string{filepath.Join(base, "data", "key"), filepath.Join(base, "config.yaml"), filepath.Join(base, "workspace", "other", "file")}
	for _, name := range append(hidden, filepath.Join(dir, "own"), filepath.Join(base, "public")) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("text\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := bwrapOrSkip(t, "bwrap", filepath.Dir(hidden[0]), hidden[1])
	if out, code := runScript(t, s, dir, "cat own "+base+"/public"); code != 0 || out != "text\ntext\n" {
		t.Errorf("the office reads as %q", out)
	}
	for _, name := range hidden {
		if out, _ := runScript(t, s, dir, "cat "+name); strings.Contains(out, "text") {
			t.Errorf("%s can be read", name)
		}
	}
}

func TestBwrapWorksForAnOrdinaryUser(t *testing.T) {
	bwrapOrSkip(t, "bwrap")
	if os.Getuid() != 0 {
		return // every other test proves it
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv to become another user")
	}
	// Outside of the test's own directory, which only root may enter.
	base, err := os.MkdirTemp("/tmp", "sandbox-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir := filepath.Join(base, "office")
	binary := filepath.Join(base, "worker")
	content, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	for _, err := range []error{
		os.Chmod(base, 0o755), os.WriteFile(binary, content, 0o755), os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", binary)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", workerVariable + "=bwrap", "SANDBOX_TEST_DIR=" + dir,
		"SANDBOX_TEST_SCRIPT=touch made && echo fine",
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "fine\n") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
}

func TestALinkInAnOfficesPlaceIsRefused(t *testing.T) {
	t.Parallel()
	s := bwrapOrSkip(t, "bwrap")
	other := office(t)
	link := filepath.Join(filepath.Dir(other), "link")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), sandbox.Command{Script: "true", Dir: link}); err == nil {
		t.Error("a command ran in a link to another office")
	}
}
