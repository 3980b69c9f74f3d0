package devstack_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/internal/devstack"
)

// ownerEnv makes this test binary the owner of a stack on the directory that it names, until it is killed.
const ownerEnv = "DEVSTACK_TEST_OWNER_OF"

func init() {
	dir := os.Getenv(ownerEnv)
	if dir == "" {
		return
	}
	stack, err := devstack.Start(context.Background(), devstack.Options{
		DataDir: dir, Getenv: bare, Log: quiet(), Durability: devstack.Disposable,
	})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("ready", stack.DatabaseURL, stack.TemporalAddress)
	select {}
}

func TestWhatAKilledOwnerLeftRunningIsEndedByTheNextStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[0] != "ready" {
		_ = owner.Process.Kill()
		t.Fatalf("the owner said %q", line)
	}
	postgres, temporal := pid(t, dir, "postgres"), pid(t, dir, "temporal")
	c, err := client.Dial(client.Options{HostPort: fields[2]})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "open", TaskQueue: "q"}, awaitSignal)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	for _, left := range []int{postgres, temporal} {
		if err := syscall.Kill(left, 0); err != nil {
			t.Fatalf("process %d ended with its owner, so this test shows nothing: %v", left, err)
		}
	}
	// A stranger whose arguments mention the directory as well.
	stranger := exec.Command("tail", "-f", dir+"/stack.json")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()

	var said lines
	stack := start(t, devstack.Options{DataDir: dir, Progress: &said})
	for _, left := range []int{postgres, temporal} {
		if now := []int{pid(t, dir, "postgres"), pid(t, dir, "temporal")}; left == now[0] || left == now[1] {
			t.Errorf("process %d of the killed owner still serves", left)
		}
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
	sameUnlessTaken(t, hostOf(t, fields[1]), hostOf(t, stack.DatabaseURL), said.String())
	sameUnlessTaken(t, fields[2], stack.TemporalAddress, said.String())
	if _, err := dial(t, stack).DescribeWorkflowExecution(t.Context(), "open", run.GetRunID()); err != nil {
		t.Error(err)
	}
}
