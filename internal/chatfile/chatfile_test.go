package chatfile_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/chatfile"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

const officeKey = "v1-slack-c1-0123456789abcdef"

var sentAt = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

func say(t testing.TB, s *store.Store, id, said string, change func(*store.ChatMessage)) {
	t.Helper()
	m := store.ChatMessage{
		OfficeKey: officeKey, MessageID: id, SessionKey: "C1", AuthorID: "U1", AuthorName: "ann", AuthorKind: store.AuthorHuman,
		Kind: store.ChatMessageKind, Text: said, SentAt: sentAt,
	}
	if change != nil {
		change(&m)
	}
	if _, err := s.Receive(t.Context(), store.Arrival{
		Office: store.Office{Key: officeKey, Platform: "slack", ConversationID: "C1", Audience: store.Shared}, Message: m,
	}); err != nil {
		t.Fatal(err)
	}
}

func update(t testing.TB, s *store.Store, dir string, how store.Renewal) store.LogFile {
	t.Helper()
	file, err := chatfile.Update(t.Context(), s, dir, officeKey, how)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func content(t testing.TB, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, chatfile.Name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// texts are the texts of the lines; every line must be JSON.
func texts(t testing.TB, dir string) string {
	t.Helper()
	var all []string
	lines := bufio.NewScanner(strings.NewReader(content(t, dir)))
	for lines.Scan() {
		var line struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, line.Text)
	}
	return strings.Join(all, "|")
}

func inode(t testing.TB, dir string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, chatfile.Name))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestALineSaysWhatPeopleRead(t *testing.T) {
	t.Parallel()
	s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
	say(t, s, "1.0001", "a <b> & \"c\"\nd 🎉", func(m *store.ChatMessage) {
		m.ThreadID, m.SessionKey = "1.0000", "C1:1.0000"
		m.Attachments = []store.Attachment{{Name: "a b.png", Path: "attachments/1-a_b.png"}}
	})
	say(t, s, "1.0002", "an answer", func(m *store.ChatMessage) {
		m.AuthorID, m.AuthorName, m.AuthorKind, m.Kind, m.CauseMessageID = "UBOT", "mikan", store.AuthorMikan, store.ChatAnswer, "1.0001"
	})
	say(t, s, "1.0003", "deployed", func(m *store.ChatMessage) { m.AuthorID, m.AuthorName, m.AuthorKind = "UB2", "ci", store.AuthorBot })
	file := update(t, s, dir, store.Continued)
	want := `{"date":"2026-01-31T09:00:00Z","ts":"1.0001","threadTs":"1.0000","sessionKey":"C1:1.0000","user":"U1","userName":"ann","text":"a <b> & \"c\"\nd 🎉","attachments":[{"original":"a b.png","localPath":"attachments/1-a_b.png"}],"platform":"slack"}
{"date":"2026-01-31T09:00:00Z","ts":"1.0002","replyTo":"1.0001","sessionKey":"C1","user":"bot","userName":"mikan","text":"an answer","platform":"slack","kind":"answer"}
{"date":"2026-01-31T09:00:00Z","ts":"1.0003","sessionKey":"C1","user":"UB2","userName":"ci","text":"deployed","isMessagingBot":true,"platform":"slack"}
`
	if got := content(t, dir); got != want || file.Messages != 3 || file.Bytes != int64(len(want)) {
		t.Errorf("%+v\n%s\nwant\n%s", file, got, want)
	}
}

func TestNewMessagesAreAppended(t *testing.T) {
	t.Parallel()
	s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
	say(t, s, "1", "one", nil)
	update(t, s, dir, store.Continued)
	before := inode(t, dir)
	say(t, s, "2", "two", nil)
	say(t, s, "3", "three", nil)
	for range 2 {
		update(t, s, dir, store.Continued)
	}
	if got := texts(t, dir); got != "one|two|three" {
		t.Error(got)
	}
	if !os.SameFile(before, inode(t, dir)) {
		t.Error("the file was written anew for two new messages")
	}
}

func TestWhatChangedMakesItAnew(t *testing.T) {
	t.Parallel()
	path := func(dir string) string { return filepath.Join(dir, chatfile.Name) }
	for name, c := range map[string]struct {
		change func(t *testing.T, s *store.Store, dir string) error
		want   string
	}{
		"an edit": {func(t *testing.T, s *store.Store, _ string) error {
			_, err := s.Revise(t.Context(), store.Revision{OfficeKey: officeKey, MessageID: "1", Text: "edited"})
			return err
		}, "edited|two"},
		"a deletion": {func(t *testing.T, s *store.Store, _ string) error {
			_, err := s.Revise(t.Context(), store.Revision{OfficeKey: officeKey, MessageID: "1", Deleted: true})
			return err
		}, "two"},
		"a deletion and a new message": {func(t *testing.T, s *store.Store, _ string) error {
			say(t, s, "3", "three", func(m *store.ChatMessage) { m.SentAt = sentAt.Add(time.Minute) })
			_, err := s.Revise(t.Context(), store.Revision{OfficeKey: officeKey, MessageID: "1", Deleted: true})
			return err
		}, "two|three"},
		"removal of the file":     {func(_ *testing.T, _ *store.Store, dir string) error { return os.Remove(path(dir)) }, "one|two"},
		"a shell that emptied it": {func(_ *testing.T, _ *store.Store, dir string) error { return os.Truncate(path(dir), 0) }, "one|two"},
		"a shell that wrote to it": {func(_ *testing.T, _ *store.Store, dir string) error {
			return os.WriteFile(path(dir), []byte("nonsense that is longer than the log was before somebody wrote it, by far, so that nobody can take the one for the other; and a little more of it to be sure, since the two messages take some three hundred bytes in the file as it was"), 0o600)
		}, "one|two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
			say(t, s, "1", "one", nil)
			say(t, s, "2", "two", func(m *store.ChatMessage) { m.SentAt = sentAt.Add(time.Second) })
			update(t, s, dir, store.Continued)
			if err := c.change(t, s, dir); err != nil {
				t.Fatal(err)
			}
			update(t, s, dir, store.Continued)
			if got := texts(t, dir); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestAMessageCommittedLateIsInIt(t *testing.T) {
	t.Parallel()
	s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
	say(t, s, "1", "one", nil)
	// A transaction takes its row's id, and commits only after a later row was written to the file.
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `
		INSERT INTO chat_log (office_key, message_id, session_key, author_id, author_name, author_kind, kind, text, sent_at)
		VALUES ($1, 'late', 'C1', 'U2', 'bob', 'human', 'message', 'late', $2)`, officeKey, sentAt); err != nil {
		t.Fatal(err)
	}
	say(t, s, "2", "two", nil)
	update(t, s, dir, store.Continued)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	update(t, s, dir, store.Continued)
	if got := texts(t, dir); got != "one|late|two" {
		t.Error(got)
	}
}

func TestALinkInItsPlaceIsAnErrorAndLeftAlone(t *testing.T) {
	t.Parallel()
	s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
	say(t, s, "1", "one", nil)
	update(t, s, dir, store.Continued)
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Rename(filepath.Join(dir, chatfile.Name), target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, chatfile.Name)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	say(t, s, "2", "two", nil)
	for _, how := range []store.Renewal{store.Continued, store.Anew} {
		if _, err := chatfile.Update(t.Context(), s, dir, officeKey, how); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("%v", err)
		}
	}
	after, err := os.ReadFile(target)
	if err != nil || string(after) != string(before) {
		t.Errorf("the link's target was written: %s, %v", after, err)
	}
	if got, err := os.Readlink(filepath.Join(dir, chatfile.Name)); err != nil || got != target {
		t.Errorf("the link is now %q, %v", got, err)
	}
}

func TestRunsOfOneOfficeUpdateItAtOnce(t *testing.T) {
	t.Parallel()
	s, dir := storetest.Open(t), filepath.Join(t.TempDir(), officeKey)
	say(t, s, "0", "0", nil)
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 5 {
				say(t, s, fmt.Sprintf("%d-%d", worker, i), "x", nil)
				if _, err := chatfile.Update(t.Context(), s, dir, officeKey, store.Continued); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := texts(t, dir); got != "0"+strings.Repeat("|x", 20) {
		t.Error(got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
