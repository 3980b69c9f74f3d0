package telegram_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// The people and chats of every rig. Ann's id is beyond what a float holds exactly.
const (
	ann   int64 = 9007199254740993
	bob   int64 = 1002
	robot int64 = 1003
	group int64 = -2001
	super int64 = -1001234567890
	forum int64 = -1009007199254740
)

// rig is the adapter with the real library and a real database, before a local Telegram. Intake is a test's own.
type rig struct {
	testing.TB
	telegram *telegramtest.Server
	store    *store.Store
	config   config.TelegramConfig
	metrics  *telemetry.Metrics
	log      *strings.Builder
	adapter  *telegram.Adapter
	fresh    atomic.Int32 // the last chat that was made for one test only

	mu       sync.Mutex
	received []adapters.Message
	intake   func(adapters.Message) error // nil: takes everything
	ready    []error
}

func populate(s *telegramtest.Server) {
	s.AddPerson(telegramtest.Person{ID: ann, FirstName: "Ann", LastName: "Example", Username: "ann_example"})
	s.AddPerson(telegramtest.Person{ID: bob, FirstName: "Bob"})
	s.AddPerson(telegramtest.Person{ID: robot, FirstName: "Deploy", Username: "deploy_bot", Bot: telegramtest.IsBot})
	s.AddChat(telegramtest.Chat{ID: ann, Type: telegramtest.PrivateChat, FirstMessage: 70})
	s.AddChat(telegramtest.Chat{ID: bob, Type: telegramtest.PrivateChat})
	s.AddChat(telegramtest.Chat{ID: group, Type: telegramtest.GroupChat, Title: "the group", FirstMessage: 40})
	s.AddChat(telegramtest.Chat{ID: super, Type: telegramtest.Supergroup, Title: "the supergroup"})
	s.AddChat(telegramtest.Chat{ID: forum, Type: telegramtest.Supergroup, Title: "the forum", Layout: telegramtest.ForumChat})
}

func newRig(t testing.TB, o telegramtest.Options) *rig {
	t.Helper()
	if o.Pause == 0 {
		o.Pause = 20 * time.Millisecond
	}
	r := &rig{TB: t, telegram: telegramtest.Start(t, o), log: &strings.Builder{}}
	populate(r.telegram)
	r.store = storetest.Open(t)
	var err error
	r.metrics, err = telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	r.must(err)
	r.config = config.TelegramConfig{BotToken: config.Secret(r.telegram.Token), APIURL: r.telegram.URL}
	r.adapter = r.another("one")
	r.fresh.Store(100_000)
	return r
}

// another makes the adapter of another process.
func (r *rig) another(process string) *telegram.Adapter {
	r.Helper()
	a, err := telegram.New(r.config, adapters.Services{
		Store: r.store, Process: process, Metrics: r.metrics, Log: slog.New(slog.NewTextHandler(&locked{to: r.log}, nil)),
	})
	r.must(err)
	return a
}

// locked is a log that several goroutines write.
type locked struct {
	mu sync.Mutex
	to *strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) receive(_ context.Context, m adapters.Message) (adapters.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.intake != nil {
		if err := r.intake(m); err != nil {
			return adapters.Receipt{}, err
		}
	}
	r.received = append(r.received, m)
	return adapters.Receipt{Decision: adapters.Logged}, nil
}

// answer sets what intake answers.
func (r *rig) answer(intake func(adapters.Message) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intake = intake
}

func (r *rig) isReady(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, err)
}

// states are what the receiving side has told about itself.
func (r *rig) states() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.ready...)
}

func (r *rig) connected() bool {
	states := r.states()
	return len(states) > 0 && states[len(states)-1] == nil
}

// start runs a receiving side until the test ends or quit is called; ended is closed when it has, with its error before.
func (r *rig) start(a *telegram.Adapter) (quit func(), ended chan error) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	mux := http.NewServeMux()
	inbound := a.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady, Mux: mux})
	if r.config.WebhookURL != "" {
		r.serve(mux)
	}
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- inbound.Run(ctx)
	}()
	quit = func() { cancel(); <-done }
	r.Cleanup(quit)
	return quit, ended
}

// serve answers webhooks at the configured address.
func (r *rig) serve(mux http.Handler) {
	r.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(r.config.WebhookURL, "http://"), config.TelegramWebhookPath)
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close()
	var err error
	server.Listener, err = listen(address)
	r.must(err)
	server.Start()
	r.Cleanup(func() {
		r.telegram.StopWebhook()
		server.Close()
	})
}

// listen runs the receiving side and waits until it takes messages in.
func (r *rig) listen() (quit func()) {
	r.Helper()
	quit, _ = r.start(r.adapter)
	r.eventually("it is connected", func() bool { return r.connected() && len(r.telegram.Calls("setMyCommands")) > 0 })
	return quit
}

// got waits for what came in about a message.
func (r *rig) got(chat int64, id string) adapters.Message {
	r.Helper()
	var found adapters.Message
	r.eventually("message "+id+" comes in", func() bool {
		for _, m := range r.all() {
			if m.ID == id && strings.Contains(string(m.Reply), itoa(chat)) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (r *rig) all() []adapters.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]adapters.Message(nil), r.received...)
}

func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	servicetest.Eventually(r, what, holds)
}

// to is a message on its way to a chat.
func to(chat int64, markdown string, terms telegram.Reply) adapters.Outgoing {
	if terms.Chat == 0 {
		terms.Chat = chat
	}
	return adapters.Outgoing{
		Address: office.Address{Platform: office.Telegram, ConversationID: itoa(chat)}, Reply: adapters.ReplyOf(terms), Key: "k", Markdown: markdown,
	}
}

// attempt makes the adapter, which may be refused.
func (r *rig) attempt() (*telegram.Adapter, error) {
	return telegram.New(r.config, adapters.Services{Store: r.store, Process: "x", Metrics: r.metrics, Log: slog.New(slog.DiscardHandler)})
}

// counted is the value of a metric.
func (r *rig) counted(series string) float64 {
	r.Helper()
	families, err := r.metrics.Gatherer().Gather()
	r.must(err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// exercise makes every call that is not made by the receiving side.
func (r *rig) exercise(check func(what string, err error)) {
	ctx := r.Context()
	_, err := r.adapter.Post(ctx, to(ann, "hello", telegram.Reply{}))
	check("posting", err)
	check("editing", r.adapter.Edit(ctx, "1", to(ann, "hello", telegram.Reply{})))
	check("deleting", r.adapter.Delete(ctx, "1", to(ann, "", telegram.Reply{})))
	check("typing", r.adapter.Working(ctx, to(ann, "", telegram.Reply{}), "thinking"))
	_, err = r.adapter.Upload(ctx, to(ann, "", telegram.Reply{}), adapters.Upload{Name: "a.txt", Size: 1, Content: strings.NewReader("a")})
	check("uploading", err)
	_, err = r.adapter.Fetch(ctx, office.Address{}, store.Attachment{Source: "x"})
	check("fetching", err)
	for _, f := range r.adapter.Check(ctx) {
		check("checking", f.Err)
	}
}
