package slacktest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Blame tells whether a refusal is the app's own doing.
type Blame int

// The choices.
const (
	NobodysFault Blame = iota // the state of the workspace: archived, deleted meanwhile, already reacted
	AppsFault                 // Slack refuses it whatever the state: a Violation
)

// apiError is an answer with ok:false.
type apiError struct {
	code     string
	blame    Blame
	messages []string // response_metadata.messages
	needed   string
	provided string
}

func (e *apiError) Error() string { return e.code }

func refuse(code string) *apiError { return &apiError{code: code} }

// wrong is a refusal that is the app's fault, with a line that says what was wrong.
func wrong(code, format string, args ...any) *apiError {
	return &apiError{code: code, blame: AppsFault, messages: []string{"[ERROR] " + fmt.Sprintf(format, args...)}}
}

// call is one request to a method, on its way through the server.
type call struct {
	method Method
	token  string
	team   *Team // of the bot token
	args   args
}

// reply is what a method says beside ok.
type reply map[string]any

// handlers are the methods' own parts. They run under the server's lock.
var handlers map[string]func(*Server, *call) (reply, *apiError)

func init() {
	handlers = map[string]func(*Server, *call) (reply, *apiError){
		"auth.test":                             (*Server).authTest,
		"apps.connections.open":                 (*Server).connectionsOpen,
		"bots.info":                             (*Server).botsInfo,
		"users.info":                            (*Server).usersInfo,
		"users.list":                            (*Server).usersList,
		"usergroups.list":                       (*Server).usergroupsList,
		"usergroups.users.list":                 (*Server).usergroupsUsersList,
		"conversations.info":                    (*Server).conversationsInfo,
		"conversations.list":                    (*Server).conversationsList,
		"users.conversations":                   (*Server).usersConversations,
		"conversations.history":                 (*Server).conversationsHistory,
		"conversations.replies":                 (*Server).conversationsReplies,
		"conversations.members":                 (*Server).conversationsMembers,
		"conversations.open":                    (*Server).conversationsOpen,
		"chat.postMessage":                      (*Server).chatPostMessage,
		"chat.postEphemeral":                    (*Server).chatPostEphemeral,
		"chat.update":                           (*Server).chatUpdate,
		"chat.delete":                           (*Server).chatDelete,
		"chat.getPermalink":                     (*Server).chatGetPermalink,
		"chat.startStream":                      (*Server).chatStartStream,
		"chat.appendStream":                     (*Server).chatAppendStream,
		"chat.stopStream":                       (*Server).chatStopStream,
		"reactions.add":                         (*Server).reactionsAdd,
		"reactions.remove":                      (*Server).reactionsRemove,
		"files.getUploadURLExternal":            (*Server).filesGetUploadURLExternal,
		"files.completeUploadExternal":          (*Server).filesCompleteUploadExternal,
		"files.info":                            (*Server).filesInfo,
		"assistant.threads.setStatus":           (*Server).assistantSetStatus,
		"assistant.threads.setSuggestedPrompts": (*Server).assistantSetSuggestedPrompts,
		"assistant.threads.setTitle":            (*Server).assistantSetTitle,
		"views.publish":                         (*Server).viewsPublish,
	}
}

// serveMethod answers a call of the Web API.
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request) {
	name, began := r.PathValue("method"), time.Now()
	c := &call{token: bearer(r)}
	method, known := MethodNamed(name)
	c.method = method
	var problem *apiError
	if known {
		c.args, problem = readArgs(r, method)
		if t, ok := c.args["token"].(string); ok && c.token == "" {
			c.token = t
		}
		delete(c.args, "token")
	}

	s.mu.Lock()
	fault := s.takeFault(name, c.args)
	s.mu.Unlock()
	if fault != nil && fault.Latency > 0 {
		if !wait(r, fault.Latency) {
			return
		}
	}

	s.mu.Lock()
	record := Call{Time: s.now(), Method: name, Args: c.args, Fault: fault.name()}
	var body reply
	var retry time.Duration
	switch {
	case !known:
		problem = wrong("unknown_method", "%s is not in the table of methods", name)
	case fault != nil && fault.refuses():
		problem, retry = refuse(fault.code()), fault.RetryAfter
	default:
		if fault != nil && fault.Kind == CloseStream {
			_ = s.endStream(c.args.text("channel"), c.args.text("ts"), Expired) // if it is open
		}
		body, retry, problem = s.answer(r, c, problem)
		if fault != nil && fault.Kind == ErrorAfter && problem == nil {
			problem = refuse(fault.code())
		}
	}
	record.OK = problem == nil
	if problem != nil {
		record.Error = problem.code
		if problem.blame == AppsFault {
			s.violate(Refused, name, problem.code+": "+strings.Join(problem.messages, "; "))
		}
		if known && !method.Returns(problem.code) && fault == nil {
			s.violate(Internal, name, "answered "+problem.code+", which the table does not list")
		}
	}
	if c.team != nil {
		record.Team = c.team.ID
	}
	record.Took = time.Since(began)
	s.calls = append(s.calls, record)
	scopes := strings.Join(s.app.Scopes, ",")
	s.tell()
	s.mu.Unlock()

	switch {
	case fault != nil && fault.Kind == DropReply:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case fault != nil && fault.Kind == ServerError:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case problem != nil && problem.code == "ratelimited" && (fault == nil || fault.Kind == TooMany):
		w.Header().Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(retry.Seconds())))))
		writeJSON(w, http.StatusTooManyRequests, reply{"ok": false, "error": "ratelimited"})
		return
	}
	if fault != nil && fault.Kind == TooManyInBody && retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.Seconds()))))
	}
	if known {
		w.Header().Set("X-OAuth-Scopes", scopes)
		w.Header().Set("X-Accepted-OAuth-Scopes", strings.Join(method.scopes(), ","))
	}
	writeJSON(w, http.StatusOK, envelope(body, problem))
}

// answer does what a well-formed call asks for. problem is what was wrong with its arguments.
func (s *Server) answer(r *http.Request, c *call, problem *apiError) (reply, time.Duration, *apiError) {
	if !slices.Contains(c.method.Verbs, r.Method) {
		return nil, 0, wrong("invalid_post_type", "%s is called with %s", c.method.Name, r.Method)
	}
	if e := s.authenticate(c); e != nil {
		return nil, 0, e
	}
	if problem != nil {
		return nil, 0, problem
	}
	if e := s.authorize(c); e != nil {
		return nil, 0, e
	}
	if retry, over := s.overRate(c); over && s.opts.Rates == RatesEnforced {
		return nil, retry, refuse("ratelimited")
	}
	body, e := handlers[c.method.Name](s, c)
	return body, 0, e
}

func (s *Server) authenticate(c *call) *apiError {
	switch {
	case c.token == "":
		return wrong("not_authed", "no token")
	case c.token == s.app.AppToken:
		if c.method.Token != AppToken && c.method.Name != "auth.test" {
			return wrong("not_allowed_token_type", "%s takes a bot token", c.method.Name)
		}
		return nil
	}
	team, ok := find(s.teams, func(t *Team) bool { return t.Installed && t.BotToken == c.token })
	if !ok {
		return wrong("invalid_auth", "this token is nobody's")
	}
	if c.method.Token == AppToken {
		return wrong("not_allowed_token_type", "%s takes an app-level token", c.method.Name)
	}
	c.team = team
	return nil
}

// authorize compares the token's scopes with the method's, and with the kind of the conversation that is named.
func (s *Server) authorize(c *call) *apiError {
	if c.method.Token == AppToken {
		return nil // an app-level token is made with its scope
	}
	needed := c.method.Scopes.Any
	if len(c.method.Scopes.ByKind) > 0 {
		needed = nil
		for _, kind := range s.kindsNamed(c) {
			if scope := c.method.Scopes.ByKind[kind]; scope != "" && !slices.Contains(s.app.Scopes, scope) {
				return s.missing(scope)
			}
		}
	}
	if len(needed) > 0 && !slices.ContainsFunc(needed, func(scope string) bool { return slices.Contains(s.app.Scopes, scope) }) {
		return s.missing(needed[0])
	}
	return nil
}

func (s *Server) missing(scope string) *apiError {
	e := wrong("missing_scope", "needs %s", scope)
	e.needed, e.provided = scope, strings.Join(s.app.Scopes, ",")
	return e
}

// kindsNamed are the kinds of conversation that a call is about.
func (s *Server) kindsNamed(c *call) []ChannelKind {
	if id := c.args.text("channel"); id != "" {
		if ch, ok := s.channel(id); ok {
			return []ChannelKind{ch.Kind}
		}
		return nil
	}
	if _, lists := c.method.Param("types"); lists {
		kinds := []ChannelKind{}
		for _, t := range c.args.words("types") {
			kinds = append(kinds, ChannelKind(t))
		}
		if len(kinds) == 0 {
			kinds = append(kinds, PublicChannel)
		}
		return kinds
	}
	if users := c.args.words("users"); len(users) > 1 {
		return []ChannelKind{GroupDM}
	} else if len(users) == 1 {
		return []ChannelKind{DirectMessage}
	}
	return nil
}

func (m Method) scopes() []string {
	out := slices.Clone(m.Scopes.Any)
	for _, s := range m.Scopes.ByKind {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func envelope(body reply, e *apiError) reply {
	if e == nil {
		out := reply{"ok": true}
		for k, v := range body {
			out[k] = v
		}
		return out
	}
	out := reply{"ok": false, "error": e.code}
	if len(e.messages) > 0 {
		out["response_metadata"] = reply{"messages": e.messages}
	}
	if e.needed != "" {
		out["needed"], out["provided"] = e.needed, e.provided
	}
	return out
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

func bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

// wait passes time, unless the caller goes away first.
func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Handled tells whether a method is served.
func Handled(method string) bool { return handlers[method] != nil }
