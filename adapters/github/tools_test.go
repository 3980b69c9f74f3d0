package github_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/github/githubtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
)

// toolbox is the tools of a conversation about a pull request.
type toolbox struct {
	*world
	tools  map[string]tool.Tool
	place  tool.Place
	number int64
	thread int64
}

var everything = []config.GitHubCapability{config.MayOpenIssues, config.MayOpenPullRequests}

func newToolbox(t testing.TB, capabilities ...config.GitHubCapability) *toolbox {
	w := newWorld(t)
	b := &toolbox{world: w, tools: map[string]tool.Tool{}}
	w.start()
	b.number, b.thread = w.pull()
	w.hub.Comment(repo, b.number, ann, "@mikan-bot look")
	w.decided()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	metrics, err := telemetry.NewMetrics(log)
	w.must(err)
	a, err := github.New(config.GitHubConfig{AgentToken: token, WebhookSecret: secret, APIURL: w.hub.URL}, config.GitHubSettings{Capabilities: capabilities},
		adapters.Services{Store: w.store, Process: "worker", Metrics: metrics, Log: log})
	w.must(err)
	for _, one := range a.Tools() {
		b.tools[one.Spec().Name] = one
	}
	b.place = tool.Place{OfficeKey: officeKey(t, repo, b.number), Dir: t.TempDir()}
	return b
}

func (b *toolbox) use(name, key string, args any) tool.Result {
	b.Helper()
	raw, err := json.Marshal(args)
	b.must(err)
	result, err := b.tools[name].Run(b.Context(), tool.Call{Key: key, Arguments: raw, Place: b.place})
	b.must(err)
	return result
}

func (b *toolbox) wants(name, key string, args any, words ...string) {
	b.Helper()
	result := b.use(name, key, args)
	for _, word := range words {
		if result.IsError || !strings.Contains(result.Text, word) {
			b.Errorf("%s %v: %q lacks %q", name, args, result.Text, word)
		}
	}
}

func (b *toolbox) refuses(name string, args any, words ...string) {
	b.Helper()
	result := b.use(name, "refused", args)
	for _, word := range words {
		if !result.IsError || !strings.Contains(result.Text, word) {
			b.Errorf("%s %v: error %v, %q; want %q", name, args, result.IsError, result.Text, word)
		}
	}
}

type m map[string]any

func TestToolsByCapability(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		capabilities []config.GitHubCapability
		want         []string
	}{
		{nil, []string{"github_checks", "github_read", "github_review_reply"}},
		{[]config.GitHubCapability{config.MayOpenIssues}, []string{"github_checks", "github_issue", "github_read", "github_review_reply"}},
		{[]config.GitHubCapability{config.MayOpenPullRequests}, []string{"github_checks", "github_pr", "github_read", "github_review_reply"}},
	} {
		b := newToolbox(t, c.capabilities...)
		var names []string
		for name, one := range b.tools {
			names = append(names, name)
			if safe := name == "github_read" || name == "github_checks"; (one.Replay() == tool.Safe) != safe {
				t.Errorf("%s is declared %v", name, one.Replay())
			}
			if placed, ok := one.(tool.Placed); !ok || placed.Platform() != office.GitHub {
				t.Errorf("%s is offered elsewhere, too", name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, c.want) {
			t.Errorf("%v has %v", c.capabilities, names)
		}
	}
}

func TestReading(t *testing.T) {
	t.Parallel()
	b := newToolbox(t)
	b.hub.Comment(repo, b.number, eve, "click here")
	b.wants("github_read", "", m{"what": "issue"}, "Pull request acme/web.app#1: Mend", "Branch mend", "Ann (collaborator)")
	b.wants("github_read", "", m{"what": "comments"}, "[eve (outside the project, untrusted)]", "click here", "look")
	b.wants("github_read", "", m{"what": "reviews"}, "commented")
	b.wants("github_read", "", m{"what": "inline"}, fmt.Sprintf("[inline-%d]", b.thread), "On a.go, line 1", "why?")
	b.wants("github_read", "", m{"what": "files"}, "a.go: modified", "+x")
	b.wants("github_read", "", m{"what": "file", "path": "a.go"}, "+x")
	b.wants("github_read", "", m{"what": "file", "path": "README.md", "ref": "main"}, "# Web.App")
	b.wants("github_read", "", m{"what": "issues"}, "#1 pull request: Mend")
	for range 70 {
		b.hub.Comment(repo, b.number, ann, "more talk")
	}
	b.wants("github_read", "", m{"what": "comments"}, "Page 3 of 3")
	b.wants("github_read", "", m{"what": "comments", "page": 1}, "Page 1 of 3", "click here")
	b.refuses("github_read", m{"what": "secrets"}, "nothing to read")
	b.refuses("github_read", m{"what": "issue", "number": 99}, "does not exist")
	b.refuses("github_read", m{"what": 5}, "must be a string")
	sha := b.hub.Push(repo, "mend", "More", map[string]string{"b.go": "x"})
	b.hub.SetChecks(repo, sha, []githubtest.Check{{Name: "test", Status: "completed", Conclusion: "failure", Summary: "2 failed"}},
		[]githubtest.Status{{Context: "lint", State: "success", Description: "clean"}})
	b.wants("github_checks", "", m{}, "check test: failure", "2 failed", "status lint: success clean")
	b.wants("github_checks", "", m{"ref": "main"}, "0 check runs")
}

// Every writing tool does what it does once, however often and however badly its call goes.
func TestWritingHappensOnce(t *testing.T) {
	t.Parallel()
	create := m{"action": "create", "title": "Mend it", "body": "So.", "message": "Mend", "files": []m{{"path": "dir/new.go", "content": "package dir\n"}, {"path": "README.md", "delete": true}}}
	for name, c := range map[string]struct {
		tool   string
		args   func(b *toolbox) m
		method string
		route  string
		count  func(b *toolbox) int
	}{
		"reply": {"github_review_reply", func(b *toolbox) m { return m{"comment": fmt.Sprint("inline-", b.thread), "text": "Because."} }, "POST", "/pulls/{number}/comments", func(b *toolbox) int { return b.shown("Because.") }},
		"issue": {"github_issue", func(*toolbox) m {
			return m{"action": "create", "title": "Found", "body": "A fault.", "labels": []string{"bug"}}
		}, "POST", "/issues", func(b *toolbox) int { return int(b.hub.Newest(repo)) - 1 }},
		"comment": {"github_issue", func(b *toolbox) m { return m{"action": "comment", "number": b.number, "body": "Also."} }, "POST", "/issues/{number}/comments", func(b *toolbox) int { return b.shown("Also.") }},
		"pull":    {"github_pr", func(*toolbox) m { return create }, "POST", "/pulls", func(b *toolbox) int { return len(b.hub.Pulls(repo)) - 1 }},
		"branch":  {"github_pr", func(*toolbox) m { return create }, "POST", "/git/refs", func(b *toolbox) int { return len(b.hub.Pulls(repo)) - 1 }},
	} {
		for _, kind := range []githubtest.FaultKind{"", githubtest.LostReply} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				b := newToolbox(t, everything...)
				if kind != "" {
					b.hub.Break(githubtest.Fault{Method: c.method, Route: c.route, Kind: kind})
				}
				args := maps.Clone(c.args(b))
				for range 2 {
					if result := b.use(c.tool, "run/step/1", args); result.IsError {
						t.Errorf("%s", result.Text)
					}
				}
				if n := c.count(b); n != 1 {
					t.Errorf("it happened %d times", n)
				}
				if kind == "" { // another call is another deed
					if name == "pull" || name == "branch" {
						args["branch"] = "another"
					}
					if result := b.use(c.tool, "run/step/2", args); result.IsError || c.count(b) != 2 {
						t.Errorf("another call: %s, %d times", result.Text, c.count(b))
					}
				}
			})
		}
	}
}

func (b *toolbox) shown(text string) (n int) {
	for _, s := range b.hub.Visible(repo, b.number) {
		if s.Author == me && strings.HasPrefix(s.Body, text) {
			n++
		}
	}
	return n
}

func TestIssuesAreWorkedOn(t *testing.T) {
	t.Parallel()
	b := newToolbox(t, everything...)
	other := b.hub.OpenIssue(repo, ann, "Other", "")
	b.wants("github_issue", "1", m{"action": "close", "number": other}, "closed")
	b.wants("github_issue", "2", m{"action": "label", "number": other, "labels": []string{"wontfix"}}, "labels")
	if _, state, labels := b.hub.State(repo, other); state != "closed" || !slices.Contains(labels, "wontfix") {
		t.Errorf("%s %v", state, labels)
	}
	b.wants("github_issue", "3", m{"action": "reopen", "number": other}, "open")
	b.refuses("github_issue", m{"action": "close", "number": b.number}, "pull request")
	b.refuses("github_issue", m{"action": "delete", "number": other}, "nothing this tool does")
	b.refuses("github_issue", m{"action": "lock", "number": other}, "nothing this tool does")
	b.refuses("github_issue", m{"action": "create"}, "title")
	b.refuses("github_issue", m{"action": "comment", "number": other}, "say something")
}

func TestAPullRequestIsOpenedAndUpdated(t *testing.T) {
	t.Parallel()
	b := newToolbox(t, everything...)
	b.must(os.MkdirAll(filepath.Join(b.place.Dir, "scratch"), 0o700))
	b.must(os.WriteFile(filepath.Join(b.place.Dir, "scratch", "new.go"), []byte("package x\n"), 0o600))
	b.must(os.WriteFile(filepath.Join(b.place.Dir, "scratch", "binary"), []byte{0xff, 0xfe}, 0o600))
	b.must(os.Symlink("/etc/passwd", filepath.Join(b.place.Dir, "scratch", "link")))
	b.wants("github_pr", "1", m{"action": "create", "title": "Mend it", "branch": "mend-it", "files": []m{{"path": "x/new.go", "source": "scratch/new.go"}, {"path": "README.md", "delete": true}}}, "Opened #2 from mikan/mend-it")
	if content, is := b.hub.File(repo, "mikan/mend-it", "x/new.go"); !is || content != "package x\n" {
		t.Errorf("the branch has %q", content)
	}
	if _, is := b.hub.File(repo, "mikan/mend-it", "README.md"); is {
		t.Error("the file was not removed")
	}
	if _, is := b.hub.File(repo, "main", "README.md"); !is {
		t.Error("main was touched")
	}
	for range 2 {
		b.wants("github_pr", "2", m{"action": "update", "branch": "mikan/mend-it", "files": []m{{"path": "x/more.go", "content": "package x // more\n"}}}, "Added")
	}
	if content, is := b.hub.File(repo, "mikan/mend-it", "x/more.go"); !is || !strings.Contains(content, "more") {
		t.Errorf("the branch has %q", content)
	}
	one := []m{{"path": "a", "content": "b"}}
	b.refuses("github_pr", m{"action": "create", "title": "Twice", "branch": "mend-it", "files": one}, "exists already")
	b.refuses("github_pr", m{"action": "update", "branch": "main", "files": one}, "no branch mikan/main")
	b.refuses("github_pr", m{"action": "update", "branch": "../main", "files": one}, "name is refused")
	b.refuses("github_pr", m{"action": "merge", "branch": "x", "files": one}, "nothing this tool does")
	b.refuses("github_pr", m{"action": "create", "title": "T", "files": []m{}}, "1 to 100 files")
	for _, path := range []string{"", "/etc/x", "../x", "a/../b", ".git/config"} {
		b.refuses("github_pr", m{"action": "create", "title": "T", "files": []m{{"path": path, "content": "x"}}}, "no path")
	}
	for _, source := range []string{"/etc/passwd", "../x", "scratch/link", "scratch/missing", "scratch"} {
		b.refuses("github_pr", m{"action": "create", "title": "T", "files": []m{{"path": "x", "source": source}}}, "Not done")
	}
	b.refuses("github_pr", m{"action": "create", "title": "T", "files": []m{{"path": "x", "source": "scratch/binary"}}}, "no text")
}

// A token that lacks a permission is told which, and nothing happens.
func TestEachToolNeedsItsPermission(t *testing.T) {
	t.Parallel()
	const r, wr = githubtest.Read, githubtest.Write
	one := []m{{"path": "a", "content": "b"}}
	for name, c := range map[string]struct {
		tool   string
		args   func(b *toolbox) m
		levels map[githubtest.Permission]githubtest.Level
		needs  string
	}{
		"read":   {"github_read", func(*toolbox) m { return m{"what": "files"} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "issues": wr}, "pull_requests=read"},
		"file":   {"github_read", func(*toolbox) m { return m{"what": "file", "path": "README.md", "ref": "main"} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "issues": wr, "pull_requests": wr}, "contents=read"},
		"checks": {"github_checks", func(*toolbox) m { return m{} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "pull_requests": r}, "checks=read"},
		"reply":  {"github_review_reply", func(b *toolbox) m { return m{"comment": fmt.Sprint(b.thread), "text": "x"} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "issues": wr, "pull_requests": r}, "pull_requests=write"},
		"issue":  {"github_issue", func(*toolbox) m { return m{"action": "create", "title": "x"} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "issues": r, "pull_requests": wr}, "issues=write"},
		"close":  {"github_issue", func(b *toolbox) m { return m{"action": "label", "number": b.number, "labels": []string{"x"}} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "issues": r, "pull_requests": r}, "issues=write"},
		"branch": {"github_pr", func(*toolbox) m { return m{"action": "create", "title": "x", "files": one} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "contents": r, "pull_requests": wr}, "contents=write"},
		"pull":   {"github_pr", func(*toolbox) m { return m{"action": "create", "title": "x", "files": one} }, map[githubtest.Permission]githubtest.Level{"metadata": r, "contents": wr, "pull_requests": r}, "pull_requests=write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newToolbox(t, everything...)
			b.hub.AddToken(token, me, c.levels)
			b.hub.Private(repo)
			before := len(b.hub.Visible(repo, b.number)) + int(b.hub.Newest(repo))
			b.refuses(c.tool, c.args(b), "permission", c.needs)
			if after := len(b.hub.Visible(repo, b.number)) + int(b.hub.Newest(repo)); after != before {
				t.Error("something happened")
			}
		})
	}
}

func TestToolsStayInTheirOwnConversation(t *testing.T) {
	t.Parallel()
	b := newToolbox(t, everything...)
	second := b.hub.OpenPull(repo, ann, "Other", "", "other", githubtest.File{Path: "a.go", Patch: "+y"})
	_, inline := b.hub.Review(repo, second, ann, "commented", "", githubtest.Inline{Path: "a.go", Line: 1, Hunk: "+y", Body: "?"})
	b.refuses("github_review_reply", m{"comment": fmt.Sprint("inline-", inline[0]), "text": "x"}, "another pull request")
	addRepo(b.hub, "Acme/other")
	b.hub.OpenIssue("Acme/other", ann, "Secret plans", "")
	for _, args := range []m{{"what": "issue", "repo": "other"}, {"what": "issue", "owner": "Acme", "repo": "Acme/other"}, {"what": "file", "path": "../../other/contents/README.md"}} {
		if text := b.use("github_read", "", args).Text; strings.Contains(text, "Secret plans") || strings.Contains(text, "# other") {
			t.Errorf("%v reads another repository: %s", args, text)
		}
	}
	b.place.OfficeKey = "v1-slack-c123-f1bbf4ab194ff2ea"
	for name := range b.tools {
		if result := b.use(name, "", m{"what": "issue", "action": "create", "title": "x", "comment": "1", "text": "x", "files": []m{{"path": "a", "content": "b"}}}); !result.IsError {
			t.Errorf("%s works outside of GitHub: %s", name, result.Text)
		}
	}
}

// What mikan never does is not even in the list of what its GitHub can be asked for by this package.
func TestNothingMergesForcesLocksOrDeletes(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	never := regexp.MustCompile(`\.(Merge|Lock|Unlock|DeleteRef|DeleteFile|DeleteHook|DeleteBranch|UpdateBranch|Transfer|Dispatch)\w*\(ctx`)
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := never.FindString(string(source)); found != "" {
			t.Errorf("%s calls %s", name, found)
		}
		if strings.Contains(string(source), "UpdateRef(") && !strings.Contains(string(source), "{SHA: &sha}}, false)") {
			t.Errorf("%s moves a branch by force", name)
		}
	}
}
