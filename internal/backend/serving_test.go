package backend_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

func TestAWorkerThatIsGoneServesNoLongerAlthoughTemporalStillListsIt(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	address, namespace := testenv.Temporal(t)
	c, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	queue := testenv.TaskQueue(t)
	b := &backend.Backend{Config: config.Config{TaskQueue: queue}, Store: s, Client: c, Dispatcher: &dispatch.Dispatcher{Client: c, Queue: queue}}
	served := func() bool {
		t.Helper()
		ok, err := b.Served(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	await := func(want bool, what string) {
		t.Helper()
		for served() != want {
			select {
			case <-t.Context().Done():
				t.Fatal(what)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	lapsed := func(ago string) {
		t.Helper()
		if _, err := s.Pool().Exec(t.Context(), `UPDATE leases SET expires_at = clock_timestamp() - $1::interval`, ago); err != nil {
			t.Fatal(err)
		}
	}
	if served() {
		t.Error("a queue that nobody has ever served counts as served")
	}
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(func(workflow.Context) error { return nil })
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	await(true, "a worker that notes nothing, as earlier versions do, was not seen")
	noting, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		backend.NoteServing(noting, s, queue, slog.New(slog.DiscardHandler))
	}()
	for known := false; !known; {
		if _, known, err = s.Serving(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	if !served() {
		t.Error("a worker that notes it is not seen")
	}
	lapsed("1 second")
	await(true, "a note that has lapsed was not renewed by the worker that lives")
	stop()
	<-ended
	w.Stop()
	lapsed("1 second")
	if polled, err := b.Dispatcher.Polled(t.Context()); err != nil || !polled {
		t.Fatalf("Temporal does not list the worker any more (%v, %v): the case shows nothing", polled, err)
	}
	if served() {
		t.Error("a worker that is gone still counts as serving")
	}
	lapsed("1 hour")
	if !served() {
		t.Error("an old note counts for more than a worker that Temporal lists")
	}
}
