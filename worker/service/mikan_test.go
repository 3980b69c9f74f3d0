package service_test

import (
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// mikan is an installation with one worker, which takes in what is said on the terminal, too.
type mikan struct {
	testing.TB
	*servicetest.Installation
	worker *servicetest.Process
}

// start runs mikan with the model that answers by the script. settings are lines of the MIKAN_CONFIG file.
func start(t testing.TB, script llmtest.Script, settings ...string) *mikan {
	t.Helper()
	return startWith(t, servicetest.Options{Script: script, Lines: settings})
}

func startWith(t testing.TB, o servicetest.Options) *mikan {
	t.Helper()
	m := &mikan{TB: t, Installation: servicetest.New(t, o)}
	m.worker = m.Worker()
	return m
}

func (m *mikan) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// send says something; thread is a message id, or empty at top level.
func (m *mikan) send(conversation, thread, said string) (adapters.Message, adapters.Receipt) {
	m.Helper()
	return m.worker.Send(terminal.Input{Conversation: conversation, Thread: thread, User: "ann", Text: said})
}

// answer is a settled run with what it said.
type answer struct {
	run       store.Run
	text      string
	messageID string
}

// settled waits until a run is settled.
func (m *mikan) settled(runID string) answer {
	m.Helper()
	var a answer
	m.eventually("run "+runID+" settles", func() bool {
		r, err := m.Store.Run(m.Context(), runID)
		if fault.CodeOf(err) == fault.NotFound {
			return false
		}
		m.must(err)
		a.run = r
		return r.State != store.Running
	})
	said, err := m.Store.RunDeliveries(m.Context(), runID)
	m.must(err)
	for _, d := range said {
		if d.State == store.Final {
			a.text, a.messageID = d.Text, d.MessageID
		}
	}
	return a
}

func (m *mikan) eventually(what string, holds func() bool) {
	m.Helper()
	servicetest.Eventually(m, what, holds)
}

// ask says something and waits for the answer.
func (m *mikan) ask(conversation, thread, said string) answer {
	m.Helper()
	_, receipt := m.send(conversation, thread, said)
	return m.settled(receipt.RunID)
}

func (m *mikan) wantOutcome(a answer, outcome run.Outcome) {
	m.Helper()
	if a.run.Outcome != outcome {
		m.Errorf("outcome %s (%s %s), want %s; it said %q", a.run.Outcome, a.run.ErrorCode, a.run.ErrorText, outcome, a.text)
	}
}
