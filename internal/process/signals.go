package process

import (
	"context"
	"errors"
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

// Ended is how a process ended whose context may have ended while it was still starting: being told to end is no failure
// then, either.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
