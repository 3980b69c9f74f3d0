// Command prepare builds what the tests start and what takes long: the Temporal dev server, unless the environment or
// the machine has a Temporal. A CI script runs it before `go test`, whose time limit would count the build.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/geminixiang/mikan/internal/devstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := devstack.Prepare(ctx, devstack.Options{Progress: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}
