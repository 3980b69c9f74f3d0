package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func TestADeathAtEachNamedPointLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for _, point := range e2etest.Failpoints(t) {
		if e2etest.OnPlatforms(point) {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, dramatic())
			died := w.dieAt(point)
			w.Settled()
			w.WellFormed()
			w.RanOnce("marks")
			if !died {
				t.Errorf("no process came to this point; extend the play, or leave the point to the platforms' deaths")
			}
		})
	}
}

// dramatic is a model for the play: it streams slowly enough for drafts, calls tools and falls silent.
func dramatic() llmtest.Script {
	echo := llmtest.Echo(llmtest.EchoOptions{Between: 100 * time.Millisecond})
	return func(r llmtest.Request) llmtest.Reply {
		switch text := llmtest.Sentence(r.LastUserText()); {
		case strings.HasPrefix(text, "write"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.ToolCall("w1", "write", `{"path":"note","content":"noted"}`)}}
		case strings.HasPrefix(text, "silent"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("[SILENT]")}, Between: 250 * time.Millisecond}
		case strings.HasPrefix(text, "hang"):
			return llmtest.Reply{Parts: []llmtest.Part{llmtest.Text("wait")}, Ending: llmtest.EndStall}
		case strings.HasPrefix(text, "fail"):
			return llmtest.Fail(401, "authentication_error", "no")
		case strings.HasPrefix(text, "talk"):
			return llmtest.Say("%s", strings.Repeat("plums and more plums ", 100))
		case len(r.Tools) == 0:
			return llmtest.Say("They talked about plums.")
		}
		return echo(r)
	}
}

// dieAt plays everything that a conversation can come to, with every process armed to die at a point, until one has
// died. A worker that died is replaced.
func (w *world) dieAt(point string) bool {
	w.T.Helper()
	armed := "MIKAN_FAILPOINT=" + point
	first := w.LaunchWorker(armed)
	e2etest.Eventually(w.T, "the worker is ready, or dead", func(context.Context) error {
		if first.Alive() && !strings.Contains(first.Output(), "the worker is ready") {
			return errors.New("not yet") // a message that nobody serves yet would be dropped by what the play says next
		}
		return nil
	})
	w.T.Cleanup(first.Kill)
	replaced := make(chan struct{})
	go func() {
		defer close(replaced)
		<-first.Ended
	}()
	died := false
	acts := []func(){
		func() { died = w.line(armed, e2etest.Mark("act", 0.1)) || died },
		func() { died = w.line(armed, "write") || died },
		func() { died = w.line(armed, "silent") || died },
		func() { died = w.hangAnd(armed, "stop all") || died },
		func() { died = w.hangAnd(armed, "/new") || died },
		func() { died = w.line(armed, "/help") || died },
		func() { died = w.line(armed, "/session") || died },
		func() {
			for range 3 {
				w.line("MIKAN_FAILPOINT=", "talk")
			}
			died = w.line(armed, "/compact") || died
		},
		func() { died = w.failAndRetry(armed) || died },
		// A message that Temporal never heard of: an armed worker finds it.
		func() { w.line("MIKAN_FAILPOINT=wake.before", "unheard"); w.taken() },
		func() { died = w.sayBehindAHang(armed) || died },
	}
	// The acts that the point's name suggests come first; most points lie in the first.
	for prefix, act := range map[string]int{"file.": 1, "platform.delete": 2, "cancel.": 3, "empty_queue.": 3, "reset.": 4, "link.": 6, "compact.": 7, "summary.": 7, "retry.": 8, "note.": 8, "woken.": 9, "wake_signal.": 10} {
		if strings.HasPrefix(point, prefix) {
			acts = append([]func(){acts[act]}, acts...)
		}
	}
	var second *e2etest.Process
	for _, act := range acts {
		done := make(chan struct{})
		go func() { defer close(done); act() }()
		select {
		case <-done:
		case <-replaced:
		}
		if !first.Alive() && second == nil {
			died = died || first.Killed()
			second = w.LaunchWorker()
		}
		<-done
		if died {
			break
		}
	}
	if second == nil {
		first.Kill()
		w.LaunchWorker()
	}
	return died
}

// failAndRetry has an operator run a failed message again, and tells whether the operator's command died.
func (w *world) failAndRetry(armed string) bool {
	failed := w.AskWith(w.T.Context(), nil, "fail")
	if failed.RunID == "" {
		return false // it found nobody to run it
	}
	out := e2etest.Command(w.T, e2etest.MikanPath(w.T), w.Environ(armed), "run", "retry", failed.RunID, "--data-dir", w.DataDir)
	return out.Code == -1
}

// taken waits until nothing waits in the inbox, or nobody is left to take it.
func (w *world) taken() {
	db := w.DB()
	e2etest.Eventually(w.T, "what waits is taken", func(ctx context.Context) error {
		waits, err := e2etest.Rows(ctx, db, `SELECT message_id FROM inbox`)
		if err == nil && len(waits) > 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// line says something through an armed gateway and tells whether that died.
func (w *world) line(armed, text string) bool {
	ctx, cancel := context.WithTimeout(w.T.Context(), e2etest.Patience)
	defer cancel()
	return w.AskWith(ctx, []string{armed}, text).Exited.Code == -1 && ctx.Err() == nil
}

// hangAnd says a control word while a model call hangs.
func (w *world) hangAnd(armed, word string) bool {
	hanging := w.hang(armed)
	died := w.line(armed, word)
	if died || w.openStreams() > 0 {
		w.line("MIKAN_FAILPOINT=", "stop")
	}
	return <-hanging || died
}

// sayBehindAHang says something for the next run while a model call hangs, and ends the call once it is taken in.
func (w *world) sayBehindAHang(armed string) bool {
	hanging, waiting := w.hang(armed), make(chan bool, 1)
	go func() { waiting <- w.line(armed, "next") }()
	db := w.DB()
	e2etest.Eventually(w.T, "the message is taken in", func(ctx context.Context) error {
		if w.openStreams() == 0 {
			return nil
		}
		waits, err := e2etest.Rows(ctx, db, `SELECT message_id FROM inbox`)
		if err == nil && len(waits) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	w.line("MIKAN_FAILPOINT=", "stop")
	died := <-waiting
	return <-hanging || died
}

// hang has a model call hang; the result tells whether its gateway has died.
func (w *world) hang(armed string) <-chan bool {
	hanging := make(chan bool, 1)
	go func() { hanging <- w.line(armed, "hang") }()
	db := w.DB()
	e2etest.Eventually(w.T, "the model hangs, or nobody is left to call it", func(ctx context.Context) error {
		if w.openStreams() > 0 {
			return nil
		}
		select {
		case died := <-hanging:
			hanging <- died
			return nil
		default:
		}
		if _, err := e2etest.Rows(ctx, db, `SELECT 'x'`); err != nil {
			return err
		}
		return errors.New("not yet")
	})
	return hanging
}
