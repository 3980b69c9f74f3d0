package telegramtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Privacy is the bot's privacy mode: whether it hears what is said in groups without addressing it.
type Privacy string

// The modes.
const (
	PrivacyOn  Privacy = "" // as BotFather makes new bots
	PrivacyOff Privacy = "off"
)

// Hosting tells whose server it stands for.
type Hosting string

// The choices. A server of one's own in local mode takes webhooks over HTTP on any port and address.
const (
	TelegramsOwn Hosting = ""
	LocalMode    Hosting = "local"
)

// Limits tells whether rate limits answer with 429.
type Limits string

// The choices.
const (
	LimitsCounted  Limits = "" // exceeding one is a violation
	LimitsEnforced Limits = "enforced"
)

// Options shape a server.
type Options struct {
	Token    string // default: one that the server makes up
	Username string // default: mikan_test_bot
	Name     string // default: mikan
	BotID    int64  // default: 7000000001
	Privacy  Privacy
	Hosting  Hosting
	Limits   Limits
	// Now is the server's clock; default time.Now. Updates are kept for 24 hours of it.
	Now func() time.Time
	// Pause is how long a second conflict within that time is held back, and between two attempts at a webhook; default
	// 3 s, as Telegram's. Tests make it shorter.
	Pause time.Duration
}

// Server is the Bot API for one bot. All methods may be called from any goroutine.
type Server struct {
	Options
	URL string // of the running server; empty when it is only a Handler

	mu         sync.Mutex
	people     map[int64]Person
	chats      map[int64]*chat
	files      map[string]*file
	commands   []Command
	updates    []update
	forgotten  []update // confirmed ones, for Redeliver
	nextUpdate int64
	allowed    map[string]bool // nil: Telegram's default
	changed    chan struct{}   // closed and replaced whenever something happens
	poll       *poll
	lastPoll   struct {
		offset int64
		at     time.Time
	}
	conflictAt time.Time
	webhook    webhook
	faults     []*Fault
	calls      []Call
	violations []Violation
	sent       map[string][]time.Time // by rate limit
	sequence   int
}

// New makes a server; serve it with ServeHTTP.
func New(o Options) *Server {
	if o.BotID == 0 {
		o.BotID = 7000000001
	}
	if o.Token == "" {
		o.Token = fmt.Sprintf("%d:AAH-local_test_token_of_35_characters", o.BotID)
	}
	if o.Username == "" {
		o.Username = "mikan_test_bot"
	}
	if o.Name == "" {
		o.Name = "mikan"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == 0 {
		o.Pause = 3 * time.Second
	}
	s := &Server{
		Options: o, people: map[int64]Person{}, chats: map[int64]*chat{}, files: map[string]*file{}, nextUpdate: 500_000_001,
		changed: make(chan struct{}), sent: map[string][]time.Time{},
	}
	s.people[o.BotID] = Person{ID: o.BotID, FirstName: o.Name, Username: o.Username, Bot: IsBot}
	return s
}

// Start runs a server on loopback until the test ends, and fails the test for every violation.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(o)
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		s.StopWebhook()
		h.CloseClientConnections() // long polls
		h.Close()
		for _, v := range s.Violations() {
			t.Errorf("Telegram was misused: %s", v)
		}
	})
	return s
}

// refusal is an error answer.
type refusal struct {
	code        int
	description string
	blame       Blame
	retryAfter  int   // seconds
	migrateTo   int64 // chat
}

// Blame tells whether a refusal is the client's own doing.
type Blame int

// The choices.
const (
	NobodysFault Blame = iota // the state of the world
	ClientsFault              // Telegram refuses it whatever the state: a Violation
)

func refuse(description string) *refusal {
	code := http.StatusBadRequest
	switch {
	case strings.HasPrefix(description, "Forbidden"):
		code = http.StatusForbidden
	case strings.HasPrefix(description, "Conflict"):
		code = http.StatusConflict
	}
	return &refusal{code: code, description: description}
}

// wrong is a refusal that a careful client never meets.
func wrong(format string, args ...any) *refusal {
	return &refusal{code: http.StatusBadRequest, description: "Bad Request: " + fmt.Sprintf(format, args...), blame: ClientsFault}
}

func (r *refusal) body() map[string]any {
	body := map[string]any{"ok": false, "error_code": r.code, "description": r.description}
	switch {
	case r.retryAfter > 0:
		body["parameters"] = map[string]any{"retry_after": r.retryAfter}
	case r.migrateTo != 0:
		body["parameters"] = map[string]any{"migrate_to_chat_id": r.migrateTo}
	}
	return body
}

// call is one request, on its way through the server.
type call struct {
	ctx    *http.Request
	method Method
	args   args
}

// ServeHTTP answers the Bot API, downloads of files, and the control API under /control/.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/control/"):
		s.control(w, r)
	case strings.HasPrefix(path, "/file/bot"):
		s.download(w, r)
	case strings.HasPrefix(path, "/bot"):
		token, name, _ := strings.Cut(strings.TrimPrefix(path, "/bot"), "/")
		s.serveMethod(w, r, token, name)
	default:
		answer(w, &refusal{code: http.StatusNotFound, description: "Not Found"})
	}
}

func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request, token, name string) {
	method, known := MethodNamed(name)
	switch {
	case token != s.Token && !strings.Contains(token, ":"):
		answer(w, &refusal{code: http.StatusNotFound, description: "Not Found"})
		return
	case token != s.Token || s.revoked():
		answer(w, &refusal{code: http.StatusUnauthorized, description: "Unauthorized"})
		return
	case !known:
		s.violate(name, "it is not in the table of methods")
		answer(w, &refusal{code: http.StatusNotFound, description: "Not Found: method not found"})
		return
	}
	given, problem := s.readArgs(r, method)
	fault := s.takeFault(method.Name, given)
	if fault != nil && !fault.before(r) {
		return
	}
	var result any
	switch {
	case problem != nil:
	case fault != nil && fault.refuses():
		problem = fault.refusal()
	default:
		result, problem = s.answerMethod(&call{ctx: r, method: method, args: given})
	}
	s.record(method.Name, given, fault, problem)
	switch {
	case r.Context().Err() != nil:
	case fault != nil && fault.Kind == LoseReply:
		hangUp(w)
	case fault != nil && fault.Kind == Malformed:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><body>Welcome</body></html>"))
	case fault != nil && fault.Kind == ServerError:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html><body>502 Bad Gateway</body></html>"))
	case problem != nil:
		answer(w, problem)
	default:
		answer(w, result)
	}
}

// handlers are the methods' own parts. They run under the server's lock, but for getUpdates.
var handlers map[string]func(*Server, *call) (any, *refusal)

func init() {
	handlers = map[string]func(*Server, *call) (any, *refusal){
		"getMe": (*Server).getMe, "setWebhook": (*Server).setWebhook, "deleteWebhook": (*Server).deleteWebhook,
		"getWebhookInfo": (*Server).getWebhookInfo, "sendMessage": (*Server).sendMessage, "editMessageText": (*Server).editMessageText,
		"deleteMessage": (*Server).deleteMessage, "sendChatAction": (*Server).sendChatAction, "sendDocument": (*Server).sendDocument,
		"sendPhoto": (*Server).sendPhoto, "getFile": (*Server).getFile, "setMyCommands": (*Server).setMyCommands,
		"getChat": (*Server).getChat, "getChatMember": (*Server).getChatMember,
	}
}

func (s *Server) answerMethod(c *call) (any, *refusal) {
	if c.method.Name == "getUpdates" {
		return s.getUpdates(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if problem := s.overLimit(c); problem != nil {
		return nil, problem
	}
	return handlers[c.method.Name](s, c)
}

// answer writes a result or a refusal.
func answer(w http.ResponseWriter, result any) {
	w.Header().Set("Content-Type", "application/json")
	if refused, ok := result.(*refusal); ok {
		if refused.retryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(refused.retryAfter))
		}
		w.WriteHeader(refused.code)
		_ = json.NewEncoder(w).Encode(refused.body())
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func (s *Server) getMe(*call) (any, *refusal) {
	me := s.people[s.BotID].wire()
	me["can_join_groups"] = true
	me["can_read_all_group_messages"] = s.Privacy == PrivacyOff
	me["supports_inline_queries"] = false
	return me, nil
}

// happen wakes whoever waits for something. The lock is held.
func (s *Server) happen() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Await returns a channel that is closed the next time anything happens.
func (s *Server) Await() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
