package adapters_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// temporal stands for Temporal where only what is asked of it matters.
type temporal struct {
	mu        sync.Mutex
	woken     []string
	cancelled []string
	down      error
}

func (f *temporal) Wake(_ context.Context, officeKey, sessionKey string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken = append(f.woken, run.WorkflowID(officeKey, sessionKey))
	return f.down
}

func (f *temporal) wakes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.woken)
}

func (f *temporal) Cancel(_ context.Context, workflowID, temporalRunID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = append(f.cancelled, workflowID+"@"+temporalRunID)
	return f.down
}

// pipelines are intake, control and delivery on a real database, with the terminal as the platform.
type pipelines struct {
	testing.TB
	store    *store.Store
	temporal *temporal
	intake   *adapters.Intake
	delivery *adapters.Delivery
	settings settings.Office // in force in every office
	now      time.Time
	count    int
}

func newPipelines(t testing.TB) *pipelines {
	t.Helper()
	s := storetest.Open(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipelines{TB: t, store: s, temporal: &temporal{}, now: time.Now().Add(-time.Hour)}
	p.delivery = &adapters.Delivery{Store: s, Metrics: metrics, Log: log, Outbounds: map[office.Platform]adapters.Outbound{office.Terminal: terminal.Outbound{}}}
	inForce := func(context.Context, string) (settings.Office, error) { return p.settings, nil }
	control := &adapters.Control{Store: s, Delivery: p.delivery, Canceller: p.temporal, Settings: inForce}
	p.intake = &adapters.Intake{
		Store: s, Waker: p.temporal, Control: control, Delivery: p.delivery, Access: &adapters.Access{Store: s}, Settings: inForce, Metrics: metrics, Log: log,
	}
	return p
}

func (p *pipelines) message(conversation, key, said string) adapters.Message {
	p.count++
	p.now = p.now.Add(time.Second)
	return adapters.Message{
		Address: office.Address{Platform: office.Terminal, ConversationID: conversation}, Audience: store.Private, SessionKey: key,
		ID: fmt.Sprintf("m%d", p.count), Author: adapters.Author{ID: "ann", Name: "ann", Kind: store.AuthorHuman}, Text: said, SentAt: p.now,
		Change: adapters.Created, Addressed: adapters.DirectMessage,
	}
}

func (p *pipelines) receive(m adapters.Message) adapters.Receipt {
	p.Helper()
	receipt, err := p.intake.Receive(p.Context(), m)
	if err != nil {
		p.Fatal(err)
	}
	return receipt
}

// overdue is everything of a platform that a sweeper could take.
func overdue(p office.Platform) store.Overdue { return store.Overdue{Platform: p, Limit: 10} }

// claim starts the oldest waiting run of a session, as its workflow would.
func (p *pipelines) claim(key string, r adapters.Receipt) store.Run {
	p.Helper()
	p.count++
	execution := fmt.Sprintf("x%d", p.count)
	claim, err := p.store.Claim(p.Context(), store.Address{OfficeKey: r.OfficeKey, SessionKey: key},
		store.Execution{WorkflowID: run.WorkflowID(r.OfficeKey, key), OriginRun: execution, RunID: execution}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil || claim.Kind != store.ClaimedRun {
		p.Fatalf("claimed %+v, %v", claim, err)
	}
	return claim.Run
}

func (p *pipelines) rows(table string) int {
	p.Helper()
	var n int
	if err := p.store.Pool().QueryRow(p.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		p.Fatal(err)
	}
	return n
}

func TestIdsThatCouldReachAnotherConversationAreRefused(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	for name, change := range map[string]func(*adapters.Message){
		"a foreign key":         func(m *adapters.Message) { m.SessionKey = "C2:5" },
		"a key with a prefix":   func(m *adapters.Message) { m.SessionKey = "C10:5" },
		"another case":          func(m *adapters.Message) { m.SessionKey = "c1" },
		"an empty key":          func(m *adapters.Message) { m.SessionKey = "" },
		"a path as suffix":      func(m *adapters.Message) { m.SessionKey = "C1:../x" },
		"a path as id":          func(m *adapters.Message) { m.Address.ConversationID, m.SessionKey = "../C1", "../C1" },
		"a colon in the id":     func(m *adapters.Message) { m.Address.ConversationID, m.SessionKey = "C1:2", "C1:2" },
		"an unknown platform":   func(m *adapters.Message) { m.Address.Platform = "matrix" },
		"a control character":   func(m *adapters.Message) { m.SessionKey = "C1:\x07" },
		"an overlong key":       func(m *adapters.Message) { m.SessionKey = "C1:" + strings.Repeat("x", 190) },
		"a path as message id":  func(m *adapters.Message) { m.ID = "../m" },
		"invalid UTF-8":         func(m *adapters.Message) { m.SessionKey = "C1:\xff" },
		"an empty message id":   func(m *adapters.Message) { m.ID = "" },
		"an edit with such ids": func(m *adapters.Message) { m.SessionKey, m.Change = "C2", adapters.Edited },
	} {
		m := p.message("C1", "C1", "hello")
		change(&m)
		receipt, err := p.intake.Receive(t.Context(), m)
		if fault.CodeOf(err) != fault.Invalid || receipt.Decision != adapters.Refused {
			t.Errorf("%s: %s, %v; want a refusal", name, receipt.Decision, err)
		}
	}
	if n := p.rows("offices") + p.rows("chat_log") + p.rows("inbox"); n != 0 || len(p.temporal.woken) != 0 {
		t.Errorf("refused messages left %d rows and woke %v", n, p.temporal.woken)
	}
}

func TestWhoAndWhatTriggers(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	for _, c := range []struct {
		name   string
		change func(*adapters.Message)
		want   adapters.Decision
	}{
		{"an addressed message", func(*adapters.Message) {}, adapters.Queued},
		{"one that addresses nobody", func(m *adapters.Message) { m.Addressed = adapters.NotAddressed }, adapters.Logged},
		{"another bot's mention", func(m *adapters.Message) { m.Author.Kind, m.Addressed = store.AuthorBot, adapters.Mention }, adapters.Logged},
		{"our own message", func(m *adapters.Message) { m.Author.Kind = store.AuthorMikan }, adapters.Logged},
		{"a bot that says stop", func(m *adapters.Message) { m.Author.Kind, m.Text = store.AuthorBot, "stop" }, adapters.Logged},
		{"stop", func(m *adapters.Message) { m.Text = "  STOP " }, adapters.Commanded},
		{"stop with a name", func(m *adapters.Message) { m.Text = "/stop @mikan" }, adapters.Commanded},
		{"a sentence with stop", func(m *adapters.Message) { m.Text = "please stop the server" }, adapters.Queued},
		{"new without a slash", func(m *adapters.Message) { m.Text = "new" }, adapters.Queued},
		{"/new", func(m *adapters.Message) { m.Text = "/new" }, adapters.Commanded},
		{"/mikan-new", func(m *adapters.Message) { m.Text = "/mikan-new" }, adapters.Commanded},
		{"an unknown slash word", func(m *adapters.Message) { m.Text = "/deploy now" }, adapters.Queued},
		{"an edit of something unknown", func(m *adapters.Message) { m.Change = adapters.Edited }, adapters.Repeated},
	} {
		m := p.message("C1", "C1", "hello")
		c.change(&m)
		if got := p.receive(m).Decision; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestARedeliveryInParallelIsTakenInOnce(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	m := p.message("C1", "C1", "once")
	decisions := make([]adapters.Decision, 6)
	var group sync.WaitGroup
	for i := range decisions {
		group.Go(func() { decisions[i] = p.receive(m).Decision })
	}
	group.Wait()
	if n := strings.Count(fmt.Sprint(decisions), string(adapters.Queued)); n != 1 || p.rows("inbox") != 1 || p.rows("chat_log") != 1 {
		t.Errorf("decisions %v", decisions)
	}
}

func TestAMessageIsKeptWhileTemporalIsDown(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	p.temporal.down = fault.New(fault.Unavailable, "Temporal is down")
	if got := p.receive(p.message("C1", "C1", "hello")).Decision; got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
	unwoken, err := p.store.Unwoken(t.Context(), 0, time.Minute, 10)
	if err != nil || len(unwoken) != 1 {
		t.Errorf("the sweeper sees %v, %v", unwoken, err)
	}
}

func TestAnEditOrDeletionChangesTheLogOnly(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	m := p.message("C1", "C1", "hello")
	r := p.receive(m)
	m.Change, m.Text = adapters.Edited, "hello, edited"
	if got := p.receive(m).Decision; got != adapters.Revised {
		t.Errorf("an edit: %s", got)
	}
	if got := p.receive(m).Decision; got != adapters.Repeated {
		t.Errorf("the same edit again: %s", got)
	}
	if p.rows("inbox") != 1 {
		t.Errorf("%d inbox rows", p.rows("inbox"))
	}
	logged, err := p.store.ChatMessage(t.Context(), r.OfficeKey, m.ID)
	if err != nil || logged.Text != "hello, edited" || logged.Revision != 1 {
		t.Errorf("logged %+v, %v", logged, err)
	}
}

func TestOnlyThoseWhoAreAllowedGetARun(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	p.settings.Allowed = []string{"ann"}
	if got := p.receive(p.message("C1", "C1", "hello")).Decision; got != adapters.Queued {
		t.Errorf("who is allowed: %s", got)
	}
	stranger := p.message("C1", "C1", "hello")
	stranger.Author.ID = "eve"
	if got := p.receive(stranger).Decision; got != adapters.Stranged {
		t.Errorf("who is not: %s", got)
	}
	stranger = p.message("C1", "C1", "stop")
	stranger.Author.ID = "eve"
	if got := p.receive(stranger).Decision; got != adapters.Commanded {
		t.Errorf("stop, which is everybody's: %s", got)
	}
}

func TestInASharedConversationOnlyAdministratorsResetTheSession(t *testing.T) {
	t.Parallel()
	p := newPipelines(t)
	p.settings.Admins = []string{"bob"}
	for i, author := range []string{"ann", "bob"} { // ann is none; bob is one
		want := i
		m := p.message("C1", "C1", "/new")
		m.Audience, m.Author.ID = store.Shared, author
		r := p.receive(m)
		session, known, err := p.store.CurrentSession(t.Context(), r.OfficeKey, "C1")
		if err != nil || known && session.Epoch != want || !known && want != 0 {
			t.Errorf("after /new by %s: %+v, %v; want epoch %d", author, session, err, want)
		}
		notice, _, err := p.store.NoticeFor(t.Context(), r.OfficeKey, m.ID)
		if err != nil || strings.Contains(notice.Text, "Only") != (want == 0) {
			t.Errorf("%s was told %q, %v", author, notice.Text, err)
		}
	}
}
