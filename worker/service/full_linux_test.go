package service_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/geminixiang/mikan/internal/chatfile"
	"github.com/geminixiang/mikan/internal/jev/jevtest"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// fullWorkspace gives an installation a workspace of a megabyte that has no room left, and a way to make some.
func (m *mikan) fullWorkspace() (makeRoom func()) {
	m.Helper()
	workspace := m.worker.Backend.Config.Workspace
	m.must(os.MkdirAll(workspace, 0o700))
	if err := syscall.Mount("tmpfs", workspace, "tmpfs", 0, "size=1m"); err != nil {
		m.Skipf("a small file system cannot be mounted here: %v", err)
	}
	m.Cleanup(func() { _ = syscall.Unmount(workspace, syscall.MNT_DETACH) })
	filler := filepath.Join(workspace, "filler")
	file, err := os.Create(filler)
	m.must(err)
	defer file.Close()
	page := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		m.Fatal(err)
	}
	return func() { m.must(os.Remove(filler)) }
}

func TestAFullWorkspaceCostsNoAnswerAndIsUsedAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	var results atomic.Value
	m := start(t, func(r llmtest.Request) llmtest.Reply {
		if got := r.LastResults(); got != nil {
			results.Store(got)
			return llmtest.Say("That is done.")
		}
		call := func(id, name string, arguments map[string]string) llmtest.Part {
			raw, _ := json.Marshal(arguments) // texts only
			return llmtest.ToolCall(id, name, string(raw))
		}
		return llmtest.Reply{Parts: []llmtest.Part{
			call("c1", "bash", map[string]string{"command": fmt.Sprintf("echo x >> %s; head -c 100000 /dev/zero > zeros", ran)}),
			call("c2", "bash", map[string]string{"command": "seq 1 20000"}), // more than the model is shown
			call("c3", "write", map[string]string{"path": "notes.md", "content": strings.Repeat("a note\n", 100)}),
			call("c4", "write", map[string]string{"path": memory.File, "content": "Remember this.\n"}),
		}}
	})
	makeRoom := m.fullWorkspace()
	use := func(said string, want ...string) answer {
		t.Helper()
		a := m.ask("room", "", said)
		m.wantOutcome(a, run.Answered)
		if a.text != "That is done." {
			t.Errorf("%s: people read %q", said, a.text)
		}
		got := results.Load().([]llmtest.Result)
		for i, w := range want {
			if i >= len(got) || !strings.Contains(got[i].Text, w) {
				t.Errorf("%s: the model reads %+v, want %q in result %d", said, got, w, i)
			}
		}
		for _, e := range m.history(a.run.WorkflowID, a.run.TemporalRunID).GetEvents() {
			if n := e.GetActivityTaskStartedEventAttributes().GetAttempt(); n > 1 {
				t.Errorf("%s: an activity needed %d attempts", said, n)
			}
		}
		return a
	}
	a := use("full", "No space left", "could not be kept: no space left", "no space left", "no space left")
	if n := strings.Count(read(t, ran), "x"); n != 1 {
		t.Errorf("the command ran %d times", n)
	}
	office := filepath.Join(m.worker.Backend.Config.Workspace, a.run.OfficeKey)
	for _, name := range []string{"notes.md", memory.File} {
		if _, err := os.Stat(filepath.Join(office, name)); !os.IsNotExist(err) {
			t.Errorf("%s is half there: %v", name, err)
		}
	}
	makeRoom()
	use("room again", "(no output)", "The full output is in", "notes.md is new", memory.File+" is new")
	if got := read(t, filepath.Join(office, memory.File)); got != "Remember this.\n" {
		t.Errorf("%s holds %q", memory.File, got)
	}
	var texts []string
	for line := range strings.Lines(read(t, filepath.Join(office, chatfile.Name))) {
		var l struct{ Text string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("a line of %s: %v", chatfile.Name, err)
		}
		texts = append(texts, l.Text)
	}
	if got := strings.Join(texts, "|"); got != "full|That is done.|room again" {
		t.Errorf("%s has %s", chatfile.Name, got)
	}
	var said int
	m.must(m.Store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM deliveries WHERE kind = 'answer' AND state = 'final'`).Scan(&said))
	if said != 2 {
		t.Errorf("%d answers to 2 messages", said)
	}
}

func TestWhatAFullWorkspaceTakesNoNoteOfIsCapturedWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	r := remember(t, jevtest.Say(0.9), func(evidence) string { return operations(addition("Deploys run on Fridays.")) }, echo)
	makeRoom := r.fullWorkspace()
	a := r.ask("C1", "", "Deploys run on Fridays.")
	r.wantOutcome(a, run.Answered)
	r.eventually("the capture finds the disk full", func() bool {
		c, err := r.Store.Capture(r.Context(), a.run.ID)
		return err == nil && strings.Contains(c.ErrorText, "no space left")
	})
	if got := r.file(a.run.OfficeKey); got != "" {
		t.Errorf("half a file: %q", got)
	}
	makeRoom()
	c := r.captured(a)
	if c.Outcome != store.CaptureWritten {
		t.Errorf("%s (%s %s)", c.Outcome, c.ErrorCode, c.ErrorText)
	}
	if got, want := r.file(a.run.OfficeKey), "## Captured knowledge\n\n"+line(c, "Deploys run on Fridays."); got != want {
		t.Errorf("file %q, want %q", got, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}
