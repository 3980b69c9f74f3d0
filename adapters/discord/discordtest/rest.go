package discordtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiError is Discord's answer to what it refuses (reference#error-messages).
type apiError struct {
	status int
	code   int
	text   string
	errors map[string]any
}

var (
	errUnauthorized   = &apiError{status: 401, text: "401: Unauthorized"}
	errNotFound       = &apiError{status: 404, text: "404: Not Found"}
	errUnknownChannel = &apiError{status: 404, code: 10003, text: "Unknown Channel"}
	errUnknownMember  = &apiError{status: 404, code: 10007, text: "Unknown Member"}
	errUnknownMessage = &apiError{status: 404, code: 10008, text: "Unknown Message"}
	errUnknownGuild   = &apiError{status: 404, code: 10004, text: "Unknown Guild"}
	errUnknownUser    = &apiError{status: 404, code: 10013, text: "Unknown User"}
	errMissingAccess  = &apiError{status: 403, code: 50001, text: "Missing Access"}
)

// invalid is 50035 with the field that is at fault.
func invalid(field, code, text string) *apiError {
	return &apiError{status: 400, code: 50035, text: "Invalid Form Body", errors: map[string]any{
		field: map[string]any{"_errors": []any{map[string]string{"code": code, "message": text}}},
	}}
}

// expected are the codes of refusals that a careful client may meet: it cannot know before.
var expected = []int{40060, 50006, 50024, 160002}

func (e *apiError) Error() string { return fmt.Sprintf("%d %d %s", e.status, e.code, e.text) }

// limit is what one bucket allows (topics/rate-limits). Discord documents no numbers; these were seen in its headers.
type limit struct {
	calls int
	in    time.Duration
	// perChannel: the bucket is that of the route's first id, Discord's "major parameter".
	per major
}

type major string

const (
	perRoute   major = ""
	perFirstID major = "first id"
)

type bucket struct {
	left  int
	reset time.Time
}

// auth tells who may call a route.
type auth string

const (
	asBot    auth = "bot"
	asAnyone auth = "anyone"
)

type request struct {
	*http.Request
	body []byte
}

func (r *request) id(name string) string { return r.PathValue(name) }

// decode reads a JSON body. Discord ignores what it does not know; here it is a mistake of the caller.
func (r *request) decode(into any) *apiError {
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &apiError{status: 400, code: 50109, text: "The request body contains invalid JSON: " + err.Error()}
	}
	return nil
}

// handler is called with s.mu held and returns what the reply's JSON is; nil is 204.
type handler func(r *request) (any, *apiError)

type route struct {
	method, path string
	auth         auth
	limit        limit
	handle       handler
}

func (s *Server) table() []route {
	const ch, msg = "/channels/{channel}", "/channels/{channel}/messages"
	every := limit{50, time.Second, perRoute}
	write := limit{5, 5 * time.Second, perFirstID}
	hook := limit{5, 2 * time.Second, perFirstID}
	none := limit{}
	return []route{
		{"GET", "/gateway", asAnyone, none, func(*request) (any, *apiError) { return map[string]string{"url": s.gatewayURL()}, nil }},
		{"GET", "/gateway/bot", asBot, limit{2, 5 * time.Second, perRoute}, func(*request) (any, *apiError) {
			return map[string]any{"url": s.gatewayURL(), "shards": 1}, nil
		}},
		{"GET", "/users/@me", asBot, every, func(*request) (any, *apiError) { return s.bot, nil }},
		{"GET", "/users/@me/guilds", asBot, limit{1, time.Second, perRoute}, s.listGuilds},
		{"POST", "/users/@me/channels", asBot, limit{10, 10 * time.Second, perRoute}, s.createDM},
		{"GET", "/applications/@me", asBot, every, s.application},
		{"GET", ch, asBot, every, s.getChannel},
		{"GET", msg, asBot, write, s.listMessages},
		{"POST", msg, asBot, write, s.createMessage},
		{"GET", msg + "/{message}", asBot, write, s.getMessage},
		{"PATCH", msg + "/{message}", asBot, write, s.editMessage},
		{"DELETE", msg + "/{message}", asBot, limit{5, time.Second, perFirstID}, s.deleteMessage},
		{"PUT", msg + "/{message}/reactions/{emoji}/@me", asBot, limit{1, 250 * time.Millisecond, perFirstID}, s.react},
		{"DELETE", msg + "/{message}/reactions/{emoji}/@me", asBot, limit{1, 250 * time.Millisecond, perFirstID}, s.unreact},
		{"POST", ch + "/typing", asBot, write, s.typing},
		{"GET", "/guilds/{guild}/members/{user}", asBot, limit{5, time.Second, perFirstID}, s.getMember},
		{"GET", "/applications/{application}/commands", asBot, every, s.listCommands},
		{"PUT", "/applications/{application}/commands", asBot, limit{10, time.Second, perRoute}, s.overwriteCommands},
		{"POST", "/applications/{application}/commands", asBot, limit{10, time.Second, perRoute}, s.createCommand},
		{"POST", "/interactions/{interaction}/{token}/callback", asAnyone, none, s.callback},
		{"POST", "/webhooks/{application}/{token}", asAnyone, hook, s.followUp},
		{"GET", "/webhooks/{application}/{token}/messages/{message}", asAnyone, hook, s.getFollowUp},
		{"PATCH", "/webhooks/{application}/{token}/messages/{message}", asAnyone, hook, s.editFollowUp},
		{"DELETE", "/webhooks/{application}/{token}/messages/{message}", asAnyone, hook, s.deleteFollowUp},
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/gateway", s.gateway)
	mux.HandleFunc("/gateway/", s.gateway)
	s.control(mux)
	for _, r := range s.table() {
		mux.HandleFunc(r.method+" /api/{version}"+r.path, func(w http.ResponseWriter, hr *http.Request) { s.call(r, w, hr) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.violate("%s %s is no call that Discord documents or mikan needs", r.Method, r.URL.Path)
		s.mu.Unlock()
		reply(w, errNotFound.status, map[string]any{"message": errNotFound.text, "code": 0})
	})
	return mux
}

func (s *Server) call(rt route, w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(io.LimitReader(hr.Body, 30<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	fault := s.fault(rt.method, rt.path)
	s.mu.Unlock()
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-hr.Context().Done():
			return // the caller gave up before Discord did anything
		}
	}
	status, result := s.answer(rt, &request{hr, body}, fault, w.Header())
	switch {
	case fault.Lost == ReplyLost && status < 300:
		s.record(rt, hr, body, 0)
		panic(http.ErrAbortHandler) // net/http breaks the connection
	case fault.Lost == ReplyMalformed && status < 300:
		s.record(rt, hr, body, status)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"1`))
		return
	}
	s.record(rt, hr, body, status)
	if page, isPage := result.(string); isPage {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, page)
		return
	}
	reply(w, status, result)
}

func (s *Server) record(rt route, hr *http.Request, body []byte, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Call{Method: rt.method, Route: rt.path, Path: hr.URL.RequestURI(), Status: status, At: time.Now()}
	if json.Valid(body) {
		c.Body = body
	}
	s.calls = append(s.calls, c)
}

func reply(w http.ResponseWriter, status int, result any) {
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(result)
}

func (s *Server) answer(rt route, r *request, fault Fault, h http.Header) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := r.PathValue("version"); v != "v9" && v != "v10" {
		s.violate("API version %s was asked for", v)
		return 400, map[string]any{"message": "Invalid API version", "code": 50041}
	}
	if !strings.HasPrefix(r.UserAgent(), "DiscordBot (") {
		s.violate("the user agent %q is not of the form that Discord demands", r.UserAgent())
	}
	if rt.auth == asBot && !s.authorised(r.Request) {
		return fail(errUnauthorized)
	}
	if over, body := s.limited(rt, r, fault, h); over {
		return http.StatusTooManyRequests, body
	}
	switch {
	case fault.Status >= 500:
		return fault.Status, "<html><body><h1>" + http.StatusText(fault.Status) + "</h1></body></html>"
	case fault.Status >= 400:
		return fail(&apiError{status: fault.Status, code: fault.Code, text: http.StatusText(fault.Status)})
	}
	result, refused := rt.handle(r)
	switch {
	case refused != nil:
		if refused.status == 400 && !slices.Contains(expected, refused.code) {
			s.violate("%s %s: %v %v", rt.method, rt.path, refused, refused.errors)
		}
		return fail(refused)
	case result == nil:
		return http.StatusNoContent, nil
	}
	return http.StatusOK, result
}

func fail(e *apiError) (int, any) {
	body := map[string]any{"message": e.text, "code": e.code}
	if e.errors != nil {
		body["errors"] = e.errors
	}
	return e.status, body
}

// limited sets the headers of a bucket and tells whether it is used up. Outside of enforcement there is always one left.
func (s *Server) limited(rt route, r *request, fault Fault, h http.Header) (bool, map[string]any) {
	if fault.Status == http.StatusTooManyRequests {
		scope := fault.Global
		if scope == ScopeUser {
			scope = "user"
		}
		h.Set("X-RateLimit-Scope", string(scope))
		if scope == ScopeGlobal {
			h.Set("X-RateLimit-Global", "true")
		}
		return s.tooMany(h, time.Duration(fault.RetryAfter*float64(time.Second)), scope)
	}
	if rt.limit.calls == 0 {
		return false, nil
	}
	name := rt.method + rt.path
	if rt.limit.per == perFirstID {
		name += r.PathValue("channel") + r.PathValue("guild") + r.PathValue("token")
	}
	b := s.buckets[name]
	if now := time.Now(); b == nil || !now.Before(b.reset) {
		b = &bucket{left: rt.limit.calls, reset: now.Add(rt.limit.in)}
		s.buckets[name] = b
	}
	over := b.left == 0
	if !over {
		b.left--
	}
	left := b.left
	if s.options.Rates == RatesLenient {
		over, left = false, max(left, 1)
	}
	h.Set("X-RateLimit-Bucket", strconv.FormatUint(uint64(len(name))*2654435761, 16))
	h.Set("X-RateLimit-Limit", strconv.Itoa(rt.limit.calls))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", strconv.FormatFloat(float64(b.reset.UnixMilli())/1000, 'f', 3, 64))
	h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(max(time.Until(b.reset).Seconds(), 0), 'f', 3, 64))
	if !over {
		return false, nil
	}
	h.Set("X-RateLimit-Scope", "user")
	return s.tooMany(h, time.Until(b.reset), ScopeUser)
}

func (s *Server) tooMany(h http.Header, after time.Duration, scope Scope) (bool, map[string]any) {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(after.Seconds(), 'f', 3, 64))
	if h.Get("X-RateLimit-Remaining") == "" {
		h.Set("X-RateLimit-Remaining", "0")
	}
	return true, map[string]any{"message": "You are being rate limited.", "retry_after": after.Seconds(), "global": scope == ScopeGlobal}
}
