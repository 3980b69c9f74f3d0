package githubtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github/githubtest"
)

type hub struct {
	*githubtest.Server
	testing.TB
}

func newHub(t testing.TB) hub {
	h := hub{githubtest.New(t), t}
	h.AddUser("bot", githubtest.Person)
	h.AddUser("ann", githubtest.Person)
	h.AddRepo("acme", "web", githubtest.PublicRepo)
	h.Permit("acme/web", "bot", "write")
	h.AddToken("t", "bot", githubtest.FullLevels())
	h.AddToken("weak", "bot", map[githubtest.Permission]githubtest.Level{"metadata": githubtest.Read})
	return h
}

func (h hub) call(method, path, token, body string, header ...string) (*http.Response, map[string]any) {
	h.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(h.Context(), method, h.URL+path, reader)
	if err != nil {
		h.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var decoded map[string]any
	_ = json.NewDecoder(answer.Body).Decode(&decoded)
	return answer, decoded
}

func TestItRefusesWhatGitHubRefuses(t *testing.T) {
	t.Parallel()
	const comments = "/repos/acme/web/issues/1/comments"
	for name, c := range map[string]struct {
		method, path, token, body string
		status                    int
		violates                  bool
	}{
		"a right call":               {"POST", comments, "t", `{"body":"x"}`, 201, false},
		"names in another case":      {"POST", "/repos/Acme/WEB/issues/1/comments", "t", `{"body":"x"}`, 201, false},
		"65,536 characters":          {"POST", comments, "t", `{"body":"` + strings.Repeat("ü", 65_536) + `"}`, 201, false},
		"65,537 characters":          {"POST", comments, "t", `{"body":"` + strings.Repeat("ü", 65_537) + `"}`, 422, true},
		"an empty body":              {"POST", comments, "t", `{"body":" "}`, 422, true},
		"a missing body":             {"POST", comments, "t", `{}`, 422, true},
		"a body of the wrong type":   {"POST", comments, "t", `{"body":5}`, 422, true},
		"no JSON":                    {"POST", comments, "t", `body`, 400, true},
		"an unknown field":           {"POST", comments, "t", `{"body":"x","nonce":"y"}`, 201, true},
		"an unknown parameter":       {"GET", comments + "?limit=5", "t", "", 200, true},
		"a page too large":           {"GET", comments + "?per_page=101", "t", "", 200, true},
		"an unknown route":           {"GET", "/repos/acme/web/stargazers", "t", "", 404, true},
		"another method":             {"PUT", comments, "t", `{"body":"x"}`, 404, true},
		"no token":                   {"GET", "/user", "", "", 401, false},
		"an unknown token":           {"POST", comments, "other", `{"body":"x"}`, 401, false},
		"a token that may not":       {"POST", comments, "weak", `{"body":"x"}`, 403, false},
		"reading in public":          {"GET", comments, "weak", "", 200, false},
		"an unknown issue":           {"POST", "/repos/acme/web/issues/9/comments", "t", `{"body":"x"}`, 404, false},
		"an unknown repository":      {"GET", "/repos/acme/none", "t", "", 404, false},
		"an unknown reaction":        {"POST", "/repos/acme/web/issues/1/reactions", "t", `{"content":"wave"}`, 422, false},
		"webhooks without a right":   {"GET", "/repos/acme/web/hooks", "weak", "", 404, false},
		"an answer to no thread":     {"POST", "/repos/acme/web/pulls/2/comments", "t", `{"body":"x","in_reply_to":1}`, 422, false},
		"a pull of no branch":        {"POST", "/repos/acme/web/pulls", "t", `{"title":"x","head":"none","base":"main"}`, 422, false},
		"a ref that exists":          {"POST", "/repos/acme/web/git/refs", "t", `{"ref":"refs/heads/main","sha":"0"}`, 422, false},
		"somebody else's permission": {"GET", "/repos/acme/web/collaborators/ann/permission", "t", "", 200, false},
	} {
		h := newHub(t)
		h.OpenIssue("acme/web", "ann", "One", "")
		h.OpenPull("acme/web", "ann", "Two", "", "two", githubtest.File{Path: "a", Patch: "+x"})
		answer, body := h.call(c.method, c.path, c.token, c.body)
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d %v, want %d", name, answer.StatusCode, body, c.status)
		}
		if violates := len(h.Violations()) > 0; violates != c.violates {
			t.Errorf("%s: violations %v", name, h.Violations())
		}
	}
}

func TestLimitsAndConditionalRequests(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.OpenIssue("acme/web", "ann", "One", "")
	limits := githubtest.Documented()
	limits.Primary, limits.ContentMinute = 6, 2
	h.Limit(limits)
	first, _ := h.call("GET", "/repos/acme/web/issues/1", "t", "")
	etag := first.Header.Get("ETag")
	for range 10 { // these cost nothing
		if answer, _ := h.call("GET", "/repos/acme/web/issues/1", "t", "", "If-None-Match", etag); answer.StatusCode != 304 {
			t.Fatalf("%d", answer.StatusCode)
		}
	}
	for n, want := range []int{201, 201, 403} {
		answer, body := h.call("POST", "/repos/acme/web/issues/1/comments", "t", `{"body":"x"}`)
		if answer.StatusCode != want || want == 403 && (answer.Header.Get("Retry-After") == "" || !strings.Contains(body["documentation_url"].(string), "secondary")) {
			t.Errorf("comment %d: %d %v", n, answer.StatusCode, body)
		}
	}
	for range 3 {
		h.call("GET", "/user", "t", "")
	}
	answer, _ := h.call("GET", "/user", "t", "")
	if answer.StatusCode != 403 || answer.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("beyond the hourly limit: %d, %v left", answer.StatusCode, answer.Header.Get("X-RateLimit-Remaining"))
	}
}

func TestPagesSinceAndCursors(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	number := h.OpenIssue("acme/web", "ann", "One", "")
	for range 70 {
		h.Comment("acme/web", number, "ann", "x")
	}
	answer, _ := h.call("GET", "/repos/acme/web/issues/1/comments?per_page=30&page=2", "t", "")
	for _, rel := range []string{`rel="first"`, `rel="prev"`, `rel="next"`, `rel="last"`} {
		if !strings.Contains(answer.Header.Get("Link"), rel) {
			t.Errorf("the Link header lacks %s: %s", rel, answer.Header.Get("Link"))
		}
	}
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if answer, body := h.call("GET", "/repos/acme/web/issues/comments?since="+future, "t", ""); answer.StatusCode != 200 || body != nil {
		t.Errorf("since the future: %v", body)
	}
}

func TestAWebhookIsSignedAndNeverSentAgainByItself(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	var count atomic.Int32
	var guids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		guids = append(guids, r.Header.Get("X-GitHub-Delivery"))
		if len(r.Header.Get("X-Hub-Signature-256")) != 71 || r.Header.Get("X-GitHub-Hook-ID") == "" || r.Header.Get("X-GitHub-Hook-Installation-Target-Type") != "repository" {
			t.Errorf("headers %v", r.Header)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	h.AddHook("acme/web", server.URL, "secret", githubtest.JSONHook, "issues")
	number := h.OpenIssue("acme/web", "ann", "One", "")
	h.Comment("acme/web", number, "ann", "not sent: the hook does not take comments")
	if n := count.Load(); n != 2 { // the ping and the issue
		t.Errorf("%d deliveries", n)
	}
	if status, code := h.Delivered(); code != 500 || !strings.Contains(status, "Invalid") {
		t.Errorf("%q %d", status, code)
	}
	h.Redeliver(1)
	if n := count.Load(); n != 3 || guids[1] != guids[2] {
		t.Errorf("%d deliveries under %v", n, guids)
	}
}

func TestTheControlInterface(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, c := range []struct{ name, body, want string }{
		{"issue", `{"repo":"acme/web","login":"ann","title":"One","body":"x"}`, `"number":1`},
		{"comment", `{"repo":"acme/web","number":1,"login":"ann","body":"hello"}`, `"id":`},
		{"visible", `{"repo":"acme/web","number":1}`, `"body":"hello"`},
		{"violations", `{}`, `[]`},
	} {
		answer, err := http.Post(h.URL+"/control/"+c.name, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != 200 || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %d %s", c.name, answer.StatusCode, got)
		}
	}
	answer, err := http.Post(h.URL+"/control/comment", "application/json", strings.NewReader(`{"repo":"no/where","number":1,"login":"ann","body":"x"}`))
	if err != nil || answer.StatusCode != 404 {
		t.Errorf("an unknown repository: %v, %v", answer, err)
	}
}
