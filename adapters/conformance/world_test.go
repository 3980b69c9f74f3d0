package conformance_test

import (
	"testing"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// world is an installation before a platform: two gateways and a worker.
type world struct {
	*servicetest.Installation
	platform adaptertest.Platform
}

func newWorld(t testing.TB, p adaptertest.Platform, script llmtest.Script) *world {
	t.Helper()
	w := &world{Installation: servicetest.New(t, servicetest.Options{Script: script, Env: p.Env(), Lines: p.Lines()}), platform: p}
	w.Worker()
	for range 2 {
		p.Serve(w.Gateway().Mux)
	}
	servicetest.Eventually(t, "the gateways are connected", func() bool { return p.Connected(2) })
	return w
}

// logged counts what people have said that mikan knows of.
func (h *stageHand) logged() int {
	h.Helper()
	var n int
	if err := h.world.Store.Pool().QueryRow(h.Context(), `SELECT count(*) FROM chat_log WHERE author_kind = 'human'`).Scan(&n); err != nil {
		h.Fatal(err)
	}
	return n
}

// runs counts those of all scenes so far.
func (h *stageHand) runs() int {
	h.Helper()
	return len(h.world.Runs())
}

// comes tells whether something comes to hold with everything settled.
func (h *stageHand) comes(holds func() bool) bool {
	return servicetest.Within(h, servicetest.Patience, func() bool { return holds() && h.world.Settled() })
}
