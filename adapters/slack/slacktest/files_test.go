package slacktest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// shared makes a file of Ann's, says it in the channel and returns how the app sees it.
func (s *stage) shared(n slacktest.NewFile) slack.File {
	s.t.Helper()
	n.User, n.Name, n.Content = s.ann.ID, "a.txt", []byte("content")
	f := must(s.CreateFile(n))
	must(s.Say(slacktest.Saying{Channel: s.general.ID, User: s.ann.ID, Text: "look", Files: []string{f.ID}}))
	h, err := s.api.GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: s.general.ID, Limit: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	return h.Messages[0].Files[0]
}

func TestFilesInAndOut(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	f := s.shared(slacktest.NewFile{})
	for _, address := range []string{f.URLPrivate, f.URLPrivateDownload} {
		var got bytes.Buffer
		if err := s.api.GetFile(address, &got); err != nil || got.String() != "content" {
			t.Errorf("%s: %q %v", address, got.String(), err)
		}
	}
	if info, _, _, err := s.api.GetFileInfo(f.ID, 0, 0); err != nil || info.Size != len("content") || info.Mimetype != "text/plain; charset=utf-8" {
		t.Errorf("%+v %v", info, err)
	}
	root := s.say("root")
	sum, err := s.api.UploadFileContext(context.Background(), slack.UploadFileParameters{
		Reader: strings.NewReader("a,b\n1,2\n"), FileSize: 8, Filename: "t.csv", Title: "Table", Channel: s.general.ID, ThreadTimestamp: root.TS})
	if err != nil {
		t.Fatal(err)
	}
	up, ok := s.File(sum.ID)
	if !ok || string(up.Content) != "a,b\n1,2\n" || up.Title != "Table" {
		t.Errorf("%+v", up)
	}
	v := s.Messages(slacktest.Which{ByApp: true})
	if len(v) != 1 || v[0].ThreadTS != root.TS || len(v[0].Files) != 1 || v[0].Files[0] != sum.ID {
		t.Errorf("%+v", v)
	}
	s.clean()

	if _, err := s.api.UploadFileContext(context.Background(), slack.UploadFileParameters{
		Reader: strings.NewReader("short"), FileSize: 8, Filename: "t.csv", Channel: s.general.ID}); err == nil {
		t.Error("fewer bytes than announced were taken")
	}
	if v := s.Violations(); len(v) == 0 || v[0].Kind != slacktest.BadUpload {
		t.Errorf("violations %v", v)
	}
}

func TestDownloadsThatFail(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	get := func(address, token string) (int, string, string) {
		t.Helper()
		req := must(http.NewRequest(http.MethodGet, address, nil))
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, resp.Header.Get("Content-Type"), string(must(io.ReadAll(resp.Body)))
	}
	fine := s.shared(slacktest.NewFile{})
	if status, kind, body := get(fine.URLPrivate, ""); status != http.StatusOK || kind != "text/html; charset=utf-8" || !strings.Contains(body, "Sign in") {
		t.Errorf("without a token: %d %s %s", status, kind, body)
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.BadDownload {
		t.Errorf("violations %v", v)
	}
	s.ResetRecords()
	broken := s.shared(slacktest.NewFile{Kind: slacktest.FileBroken})
	if status, _, _ := get(broken.URLPrivate, s.team.BotToken); status != http.StatusInternalServerError {
		t.Errorf("a broken file: %d", status)
	}
	if gone := s.shared(slacktest.NewFile{Kind: slacktest.FileDeleted}); gone.Mode != "tombstone" || gone.URLPrivate != "" {
		t.Errorf("a deleted file: %+v", gone)
	}
	s.clean()
}

func TestATokenThatLeavesSlackIsKept(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{Files: slacktest.FilesApart})
	if s.FilesURL() == s.URL() {
		t.Error("files are not apart")
	}
	foreign := s.shared(slacktest.NewFile{Kind: slacktest.FileExternal})
	if !foreign.IsExternal || !strings.HasPrefix(foreign.URLPrivate, s.ForeignURL()) {
		t.Fatalf("%+v", foreign)
	}
	if err := s.api.GetFile(foreign.URLPrivate, io.Discard); err == nil {
		t.Error("the SDK sends its token anywhere")
	}
	s.clean()
	req := must(http.NewRequest(http.MethodGet, foreign.URLPrivate, nil))
	req.Header.Set("Authorization", "Bearer "+s.team.BotToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if v := s.Violations(); len(v) != 1 || v[0].Kind != slacktest.LeakedToken {
		t.Errorf("violations %v", v)
	}
}

func TestARedirectAwayFromSlackShowsWhetherTheTokenFollows(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	f := s.shared(slacktest.NewFile{Kind: slacktest.FileAway})
	follow := &http.Client{CheckRedirect: func(to *http.Request, via []*http.Request) error {
		to.Header.Set("Authorization", via[0].Header.Get("Authorization"))
		return nil
	}}
	for _, c := range []struct {
		client *http.Client
		leaks  int
	}{{http.DefaultClient, 0}, {follow, 1}} {
		s.ResetRecords()
		req := must(http.NewRequest(http.MethodGet, f.URLPrivate, nil))
		req.Header.Set("Authorization", "Bearer "+s.team.BotToken)
		resp, err := c.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := string(must(io.ReadAll(resp.Body)))
		if err := resp.Body.Close(); err != nil || body != "content" {
			t.Errorf("%q %v", body, err)
		}
		if v := s.Violations(); len(v) != c.leaks {
			t.Errorf("violations %v", v)
		}
	}
}

func TestFilesOfStrangersAreWithheldFromEvents(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	elsewhere := must(s.CreateTeam(slacktest.NewTeam{Name: "Elsewhere"}))
	sam := must(s.CreateUser(slacktest.NewUser{Team: elsewhere.ID, Name: "sam"}))
	shared := must(s.CreateChannel(slacktest.NewChannel{Name: "shared", Members: []string{sam.ID}, WithBot: true, SharedWith: []string{elsewhere.ID}}))
	f := must(s.CreateFile(slacktest.NewFile{User: sam.ID, Name: "a.txt", Content: []byte("content")}))
	events := s.heard(func() {
		must(s.Say(slacktest.Saying{Channel: shared.ID, User: sam.ID, Text: "look", Files: []string{f.ID}}))
	})
	stub := events[0]["files"].([]any)[0].(map[string]any)
	if stub["file_access"] != "check_file_info" || stub["id"] != f.ID || stub["url_private"] != nil {
		t.Errorf("%v", stub)
	}
	info, _, _, err := s.api.GetFileInfo(f.ID, 0, 0)
	if err != nil || info.URLPrivate == "" {
		t.Errorf("%+v %v", info, err)
	}
	s.clean()
}
