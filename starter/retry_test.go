package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// TestExitCodesOfRunRetry runs in order: the process's environment names the servers.
func TestExitCodesOfRunRetry(t *testing.T) {
	url := testenv.PostgresURL(t)
	address, namespace := testenv.Temporal(t)
	t.Setenv("MIKAN_DATABASE_URL", url)
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1") // nobody
	ctx := t.Context()
	s := storetest.At(t, url)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := office.Address{Platform: office.Terminal, ConversationID: "cli"}.Key()
	must(err)
	k := string(key)
	failed := func(message string) string {
		t.Helper()
		_, err := s.Receive(ctx, store.Arrival{
			Office: store.Office{Key: k, Platform: "terminal", ConversationID: "cli", Audience: store.Private},
			Message: store.ChatMessage{OfficeKey: k, MessageID: message, SessionKey: "cli", AuthorID: "ann", AuthorName: "ann",
				AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: "do it", SentAt: time.Now()},
			Row: &store.InboxRow{OfficeKey: k, SessionKey: "cli", Kind: store.InboxTrigger, Trigger: run.Human, MessageID: message},
		})
		must(err)
		claim, err := s.Claim(ctx, store.Address{OfficeKey: k, SessionKey: "cli"},
			store.Execution{WorkflowID: run.WorkflowID(k, "cli"), OriginRun: message, RunID: message}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
		must(err)
		_, err = s.Finish(ctx, claim.Run.ID, nil, store.Settlement{Outcome: run.Failed})
		must(err)
		return claim.Run.ID
	}
	first, second := failed("m1"), failed("m2")
	for _, c := range []struct {
		what string
		args []string
		code int
	}{
		{"no run named", nil, exitUsage},
		{"an unknown run", []string{"nothing"}, 5},
		{"queued while Temporal is away", []string{first, "--json"}, exitUnserved},
		{"queued already", []string{first}, exitRefused},
	} {
		out, code := mikan(t, append([]string{"run", "retry"}, c.args...)...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.what, code, c.code)
		}
		if c.code == exitUnserved {
			var printed struct {
				RunID   string `json:"run_id"`
				Retries string `json:"retries"`
				Attempt int    `json:"attempt"`
				Woken   bool   `json:"woken"`
			}
			if err := json.Unmarshal([]byte(out), &printed); err != nil || printed.RunID != run.ID(k, "cli", "m1", 2) || printed.Retries != first || printed.Attempt != 2 || printed.Woken {
				t.Errorf("it prints %q (%v)", out, err)
			}
		}
	}
	t.Setenv("TEMPORAL_ADDRESS", address)
	t.Setenv("TEMPORAL_NAMESPACE", namespace)
	t.Setenv("MIKAN_TASK_QUEUE", testenv.TaskQueue(t))
	if out, code := mikan(t, "run", "retry", second); code != 0 || out != "attempt 2 is run "+run.ID(k, "cli", "m2", 2)+"\n" {
		t.Errorf("it prints %q and exits with %d", out, code)
	}
}
