package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal is the context of a whole process. The first SIGINT or SIGTERM ends it, so that the process ends in order; a
// second one ends the process at once, as if it had never been caught. That loses nothing either.
func UntilSignal() context.Context {
	ctx, end := context.WithCancel(context.Background())
	// Both signals may come before the first is looked at.
	came := make(chan os.Signal, 2)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-came
		end()
		second := <-came
		signal.Reset(second)
		if number, ok := second.(syscall.Signal); ok {
			_ = syscall.Kill(os.Getpid(), number)
		}
	}()
	return ctx
}
