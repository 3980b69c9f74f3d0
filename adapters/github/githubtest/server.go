package githubtest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// Server is one GitHub.
type Server struct {
	URL string // without a slash at the end

	mu         sync.Mutex
	table      []Route
	users      map[string]*user
	repos      map[string]*repo
	tokens     map[string]*token
	hooks      []*hook
	assets     map[string][]byte
	nextID     int64
	nextGUID   int64
	limits     Limits
	windows    map[string]*window
	faults     []*Fault
	calls      []Call
	violations []Violation
	echo       EchoOrder
	inFlight   sync.WaitGroup
	now        func() time.Time
	behind     time.Duration // how far the times of what is said lie behind
	said       time.Time     // of what was said last
}

// Limits are the rates that the server enforces.
type Limits struct {
	Primary       int           // calls of a token in Window
	Window        time.Duration // of the primary limit
	ContentMinute int           // content-generating calls of a token in a minute
	ContentHour   int
	PointsMinute  int // a read costs one point, a write five
}

// Documented are GitHub's limits for a personal access token.
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
func Documented() Limits {
	return Limits{Primary: 5000, Window: time.Hour, ContentMinute: 80, ContentHour: 500, PointsMinute: 900}
}

// EchoOrder tells when the webhook of a change that came by REST is sent.
type EchoOrder int

// The orders.
const (
	EchoAfter EchoOrder = iota // the reply first
	EchoFirst                  // the webhook has been answered before the reply goes out
)

// Call is one request as the server saw it.
type Call struct {
	Method string
	Path   string
	Route  string
	Query  string
	Status int
	Body   string
	Login  string
}

// Violation is something that a correct client would never do.
type Violation struct {
	Call Call
	What string
}

// FaultKind is what goes wrong.
type FaultKind string

// The faults.
const (
	LostReply   FaultKind = "lost_reply"   // the call is carried out, and the connection dies before the reply
	LostCall    FaultKind = "lost_call"    // the connection dies before anything is carried out
	Failing     FaultKind = "failing"      // Status
	Malformed   FaultKind = "malformed"    // 200 and half a JSON document
	Primary     FaultKind = "primary"      // 403, the primary limit is used up for After
	Secondary   FaultKind = "secondary"    // 403 with Retry-After
	TooMany     FaultKind = "too_many"     // 429 with Retry-After
	SlowAnswers FaultKind = "slow_answers" // the reply comes after After
)

// Fault is what happens to the next Times calls of a route.
type Fault struct {
	Method string        `json:"method"` // empty: any
	Route  string        `json:"route"`  // part of the route's path; empty: any
	Kind   FaultKind     `json:"kind"`
	Status int           `json:"status"`
	After  time.Duration `json:"after"`
	Times  int           `json:"times"`
}

// window counts calls since it began.
type window struct {
	began time.Time
	used  int
}

// New makes a GitHub without anything in it, at a free port until the test ends.
func New(t testing.TB) *Server {
	s := Empty()
	ts := httptest.NewServer(s)
	s.URL = ts.URL
	t.Cleanup(func() {
		s.inFlight.Wait()
		ts.Close()
	})
	return s
}

// Empty makes a GitHub that is served by somebody else, who sets URL.
func Empty() *Server {
	return &Server{
		table: Routes(), users: map[string]*user{}, repos: map[string]*repo{}, tokens: map[string]*token{}, assets: map[string][]byte{},
		nextID: 2_900_000_000, // above what 32 bits hold, as GitHub's are
		limits: Documented(), windows: map[string]*window{}, now: time.Now, behind: behind,
	}
}

// behind gives what is said in quick succession times of its own, a second apart as GitHub tells them, none of them in
// the future.
const behind = 80 * time.Second

// clock is when the next thing is said.
func (s *Server) clock() time.Time {
	next := s.said.Add(time.Second)
	if earliest := s.now().Add(-s.behind).Truncate(time.Second); next.Before(earliest) {
		next = earliest
	}
	s.said = next
	return next
}

// Shift makes what is said from now on lie so far in the past.
func (s *Server) Shift(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind, s.said = by, time.Time{}
}

func (s *Server) id() int64 { s.nextID++; return s.nextID }

// Break makes calls fail.
func (s *Server) Break(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// Mend ends all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Limit changes the rates that are enforced.
func (s *Server) Limit(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
	s.windows = map[string]*window{}
}

// SetEcho tells when webhooks of changes that come by REST are sent.
func (s *Server) SetEcho(o EchoOrder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.echo = o
}

// Calls lists the calls whose method and route match; empty strings match all.
func (s *Server) Calls(method, route string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c Call) bool {
		return method != "" && c.Method != method || !strings.Contains(c.Route, route)
	})
}

// Violations lists what a correct client would not have done.
func (s *Server) Violations() []Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// call is a request on its way through the server.
type call struct {
	s      *Server
	route  *Route
	values map[string]string
	query  map[string]string
	body   map[string]any
	login  string
	repo   *repo
	emit   []func() // webhooks to send when the lock is released
}

// reply is what goes back. A nil body is an empty one.
type reply struct {
	status int
	body   any
	header map[string]string
}

func ok(body any) reply      { return reply{status: http.StatusOK, body: body} }
func created(body any) reply { return reply{status: http.StatusCreated, body: body} }
func noContent() reply       { return reply{status: http.StatusNoContent} }

func refusal(status int, message string) reply {
	return reply{status: status, body: object{"message": message, "documentation_url": docs + "overview", "status": strconv.Itoa(status)}}
}

func notFound() reply { return refusal(http.StatusNotFound, "Not Found") }

func invalid(resource, field, code string, message ...string) reply {
	e := object{"resource": resource, "field": field, "code": code}
	if len(message) > 0 {
		e["message"] = message[0]
	}
	return reply{status: http.StatusUnprocessableEntity, body: object{"message": "Validation Failed", "errors": []object{e}, "documentation_url": docs + "overview"}}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/control/") {
		s.control(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	record := Call{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Body: string(raw)}
	c, answer, route := s.admit(r, raw, &record)
	fault := s.faultFor(r.Method, route)
	if c != nil && (fault == nil || fault.Kind == LostReply || fault.Kind == SlowAnswers) {
		answer = route.handle(c)
	}
	if fault != nil {
		answer = fault.apply(answer, s.now())
	}
	answer = s.conditional(r, answer)
	record.Status = answer.status
	s.calls = append(s.calls, record)
	header := s.rateHeaders(r)
	echo := s.echo
	s.mu.Unlock()

	if c != nil && echo == EchoFirst {
		sendAll(c.emit)
	}
	s.write(w, r, answer, header, fault)
	if c != nil && echo == EchoAfter && len(c.emit) > 0 {
		s.inFlight.Go(func() { sendAll(c.emit) })
	}
}

func sendAll(emit []func()) {
	for _, send := range emit {
		send()
	}
}

// Settle waits until the webhooks of all changes that came by REST were answered.
func (s *Server) Settle() { s.inFlight.Wait() }

func (s *Server) violation(record Call, what string, args ...any) {
	s.violations = append(s.violations, Violation{Call: record, What: fmt.Sprintf(what, args...)})
}

// admit takes a request through everything that comes before its handler; the call is nil when it did not get through.
func (s *Server) admit(r *http.Request, raw []byte, record *Call) (*call, reply, *Route) {
	route, values, known := match(s.table, r.Method, r.URL.Path)
	if route == nil {
		s.violation(*record, "a call outside the table (path known: %v)", known)
		return nil, notFound(), nil
	}
	record.Route = route.Path
	t := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if t == nil {
		return nil, refusal(http.StatusUnauthorized, "Bad credentials"), route
	}
	record.Login = t.login
	if limited, is := s.limited(t, route); is {
		return nil, limited, route
	}
	c := &call{s: s, route: route, values: values, query: map[string]string{}, login: t.login}
	if answer, refused := c.permit(t); refused {
		return nil, answer, route
	}
	for name, v := range r.URL.Query() {
		if !slices.Contains(route.Query, name) {
			s.violation(*record, "query parameter %q is not documented", name)
		}
		c.query[name] = v[0]
	}
	if n, err := strconv.Atoi(c.query["per_page"]); c.query["per_page"] != "" && (err != nil || n < 1 || n > 100) {
		s.violation(*record, "per_page is %s", c.query["per_page"])
	}
	if answer, refused := c.parse(raw, record); refused {
		return nil, answer, route
	}
	return c, reply{}, route
}

// permit finds the repository and compares the token's permissions with the route's needs. What a token cannot see at
// all does not exist; what it may not do is forbidden.
func (c *call) permit(t *token) (reply, bool) {
	if owner := c.values["owner"]; owner != "" {
		full := strings.ToLower(owner + "/" + c.values["repo"])
		c.repo = c.s.repos[full]
		if c.repo == nil {
			return notFound(), true
		}
		selected := len(t.repos) == 0 || slices.Contains(t.repos, full)
		own := c.repo.permissions[strings.ToLower(t.login)]
		if c.repo.private && (!selected || own == "") {
			return notFound(), true
		}
		writes := slices.ContainsFunc(c.route.Needs, func(n Need) bool { return n.Level == Write })
		if writes && !selected {
			return forbidden(c.route.Needs), true
		}
	}
	if len(c.route.Needs) == 0 {
		return reply{}, false
	}
	for _, n := range c.route.Needs {
		if t.levels[n.Permission] >= n.Level {
			return reply{}, false
		}
	}
	if c.repo != nil && !c.repo.private && c.route.Method == http.MethodGet && !slices.Contains(c.route.Needs, Need{Webhooks, Read}) {
		return reply{}, false // what everybody can read needs no permission
	}
	if c.repo == nil || slices.Contains(c.route.Needs, Need{Webhooks, Read}) {
		return notFound(), true
	}
	return forbidden(c.route.Needs), true
}

func forbidden(needs []Need) reply {
	a := refusal(http.StatusForbidden, "Resource not accessible by personal access token")
	accepted := []string{}
	for _, n := range needs {
		accepted = append(accepted, string(n.Permission)+"="+n.Level.String())
	}
	a.header = map[string]string{"X-Accepted-GitHub-Permissions": strings.Join(accepted, "; ")}
	return a
}

// parse reads the body and checks its fields as GitHub does.
func (c *call) parse(raw []byte, record *Call) (reply, bool) {
	if c.route.Body == nil {
		if len(raw) > 0 {
			c.s.violation(*record, "a body where none is taken")
		}
		return reply{}, false
	}
	var bare []any
	if len(c.route.Body) == 1 && c.route.Body[0].Kind == List && json.Unmarshal(raw, &bare) == nil {
		raw, _ = json.Marshal(object{c.route.Body[0].Name: bare}) // a list may come without its name
	}
	if !utf8.Valid(raw) || json.Unmarshal(raw, &c.body) != nil {
		c.s.violation(*record, "the body is no JSON object")
		return refusal(http.StatusBadRequest, "Problems parsing JSON"), true
	}
	for name, v := range c.body {
		i := slices.IndexFunc(c.route.Body, func(f Field) bool { return f.Name == name })
		if i < 0 {
			c.s.violation(*record, "body field %q is not documented", name)
			continue
		}
		if v != nil && !c.route.Body[i].holds(v) {
			c.s.violation(*record, "body field %q has the wrong type", name)
			return invalid("Issue", name, "invalid"), true
		}
	}
	for _, f := range c.route.Body {
		text, _ := c.body[f.Name].(string)
		switch {
		case f.Required && (c.body[f.Name] == nil || f.Kind == Text && strings.TrimSpace(text) == ""):
			c.s.violation(*record, "body field %q is missing", f.Name)
			return invalid("IssueComment", f.Name, "missing_field"), true
		case f.Max > 0 && utf8.RuneCountInString(text) > f.Max:
			c.s.violation(*record, "body field %q has more than %d characters", f.Name, f.Max)
			return invalid("IssueComment", f.Name, "custom", fmt.Sprintf("%s is too long (maximum is %d characters)", f.Name, f.Max)), true
		}
	}
	return reply{}, false
}

func (f Field) holds(v any) bool {
	switch v.(type) {
	case string:
		return f.Kind == Text
	case float64:
		return f.Kind == Number
	case bool:
		return f.Kind == Bool
	case []any:
		return f.Kind == List
	}
	return false
}

func (s *Server) faultFor(method string, route *Route) *Fault {
	for _, f := range s.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == method) && (f.Route == "" || route != nil && strings.Contains(route.Path, f.Route)) {
			f.Times--
			copied := *f
			return &copied
		}
	}
	return nil
}

func (f *Fault) apply(answer reply, now time.Time) reply {
	seconds := strconv.Itoa(int((f.After + time.Second - 1) / time.Second))
	switch f.Kind {
	case Failing:
		return refusal(f.Status, http.StatusText(f.Status))
	case Primary:
		a := refusal(http.StatusForbidden, "API rate limit exceeded for user ID 1.")
		a.header = map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(now.Add(f.After).Unix(), 10)}
		return a
	case Secondary, TooMany:
		return secondary(f.Kind, seconds)
	case Malformed:
		return ok(object{"message": "half of this is sent"})
	}
	return answer
}

func secondary(kind FaultKind, seconds string) reply {
	a := refusal(http.StatusForbidden, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	if kind == TooMany {
		a.status = http.StatusTooManyRequests
	}
	a.body.(object)["documentation_url"] = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	a.header = map[string]string{"Retry-After": seconds}
	return a
}

// limited counts a call against the token's limits.
func (s *Server) limited(t *token, route *Route) (reply, bool) {
	count := func(name string, lasts time.Duration, most, cost int) (left time.Duration, over bool) {
		key := t.login + "/" + name
		w := s.windows[key]
		if w == nil || s.now().Sub(w.began) >= lasts {
			w = &window{began: s.now()}
			s.windows[key] = w
		}
		if most > 0 && w.used+cost > most {
			return lasts - s.now().Sub(w.began), true
		}
		w.used += cost
		return 0, false
	}
	if left, over := count("core", s.limits.Window, s.limits.Primary, 1); over {
		return (&Fault{Kind: Primary, After: left}).apply(reply{}, s.now()), true
	}
	points := 1
	if route.Method != http.MethodGet {
		points = 5
	}
	for _, l := range []struct {
		name       string
		lasts      time.Duration
		most, cost int
	}{
		{"points", time.Minute, s.limits.PointsMinute, points},
		{"content-minute", time.Minute, s.limits.ContentMinute, int(route.Cost)},
		{"content-hour", time.Hour, s.limits.ContentHour, int(route.Cost)},
	} {
		if left, over := count(l.name, l.lasts, l.most, l.cost); over && l.cost > 0 {
			return secondary(Secondary, strconv.Itoa(int(left/time.Second)+1)), true
		}
	}
	return reply{}, false
}

// conditional answers 304 when the client has the representation already; that costs nothing of the primary limit.
func (s *Server) conditional(r *http.Request, answer reply) reply {
	if r.Method != http.MethodGet || answer.status != http.StatusOK {
		return answer
	}
	raw, _ := json.Marshal(answer.body)
	etag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(raw))
	if answer.header == nil {
		answer.header = map[string]string{}
	}
	answer.header["ETag"] = etag
	if r.Header.Get("If-None-Match") == etag {
		if t := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]; t != nil {
			if w := s.windows[t.login+"/core"]; w != nil {
				w.used--
			}
		}
		return reply{status: http.StatusNotModified, header: answer.header}
	}
	return answer
}

func (s *Server) rateHeaders(r *http.Request) map[string]string {
	t := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if t == nil {
		return nil
	}
	w := s.windows[t.login+"/core"]
	if w == nil {
		return nil
	}
	return map[string]string{
		"X-RateLimit-Limit": strconv.Itoa(s.limits.Primary), "X-RateLimit-Remaining": strconv.Itoa(s.limits.Primary - w.used),
		"X-RateLimit-Used": strconv.Itoa(w.used), "X-RateLimit-Reset": strconv.FormatInt(w.began.Add(s.limits.Window).Unix(), 10),
		"X-RateLimit-Resource": "core",
	}
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, answer reply, header map[string]string, fault *Fault) {
	if fault != nil {
		switch fault.Kind {
		case LostReply, LostCall:
			panic(http.ErrAbortHandler)
		case SlowAnswers:
			select {
			case <-time.After(fault.After):
			case <-r.Context().Done():
			}
		}
	}
	for _, all := range []map[string]string{header, answer.header} {
		for name, value := range all {
			w.Header().Set(name, value)
		}
	}
	if raw, is := answer.body.([]byte); is {
		w.WriteHeader(answer.status)
		_, _ = w.Write(raw)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(answer.status)
	if answer.body == nil {
		return
	}
	raw, _ := json.Marshal(answer.body)
	if fault != nil && fault.Kind == Malformed {
		raw = raw[:len(raw)/2]
	}
	_, _ = w.Write(raw)
}
