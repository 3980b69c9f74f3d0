package discord_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service/servicetest"
)

// rig is the adapter with the real library, intake, control and delivery on a real database, before a local Discord.
// Nothing runs what intake queues.
type rig struct {
	testing.TB
	discord  *discordtest.Server
	store    *store.Store
	adapter  *discord.Adapter
	intake   *adapters.Intake
	delivery *adapters.Delivery

	guild, general string
	ann            string // a member of the guild, which is listed

	mu       sync.Mutex
	received []adapters.Message
	decided  map[string]adapters.Decision // by message id, the first one
	refuse   error                        // what Receive answers in place of intake
	refused  int
	ready    []error
	hold     func(context.Context, adapters.Message) // before a message is taken in
}

// temporal stands for Temporal, where nothing is asked of it.
type temporal struct{}

func (temporal) Wake(context.Context, string, string) error   { return nil }
func (temporal) Cancel(context.Context, string, string) error { return nil }

func newRig(t testing.TB, o discordtest.Options) *rig {
	t.Helper()
	s := storetest.Open(t)
	r := populate(t, discordtest.New(t, o), s)
	r.wire(t.Name())
	return r
}

// populate makes a guild that mikan answers in, without an adapter.
func populate(t testing.TB, server *discordtest.Server, s *store.Store) *rig {
	t.Helper()
	r := &rig{TB: t, discord: server, store: s, decided: map[string]adapters.Decision{}}
	r.guild = r.discord.AddGuild("guild")
	r.general = r.discord.AddChannel(r.guild, "general")
	r.ann = r.discord.AddUser("Ann")
	r.discord.Join(r.guild, r.ann)
	r.must(r.store.SetAccess(t.Context(), store.AccessRule{Platform: "discord", Kind: store.PrincipalGuild, Principal: r.guild, Effect: store.Allow}))
	return r
}

// wire makes the adapter and the pipelines, as another process would.
func (r *rig) wire(process string) {
	r.Helper()
	log := slog.New(slog.NewTextHandler(r.Output(), nil))
	metrics, err := telemetry.NewMetrics(log)
	r.must(err)
	access := &adapters.Access{Store: r.store}
	c := config.DiscordConfig{BotToken: config.Secret(r.discord.Token()), APIURL: r.discord.URL()}
	r.adapter, err = discord.New(c, access.Rules, adapters.Services{Store: r.store, Process: process, Metrics: metrics, Log: log})
	r.must(err)
	inForce := func(context.Context, string) (settings.Office, error) { return settings.Office{}, nil }
	r.delivery = &adapters.Delivery{Store: r.store, Metrics: metrics, Log: log, Outbounds: map[office.Platform]adapters.Outbound{office.Discord: r.adapter}}
	control := &adapters.Control{Store: r.store, Delivery: r.delivery, Canceller: temporal{}, Settings: inForce, PublicURL: "https://mikan.example"}
	r.intake = &adapters.Intake{
		Store: r.store, Waker: temporal{}, Control: control, Delivery: r.delivery, Settings: inForce, Access: access,
		AnswerAge: 24 * time.Hour, Metrics: metrics, Log: log,
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) receive(ctx context.Context, m adapters.Message) (adapters.Receipt, error) {
	r.mu.Lock()
	refuse, hold := r.refuse, r.hold
	if refuse != nil {
		r.refused++
	}
	r.mu.Unlock()
	if refuse != nil {
		return adapters.Receipt{}, refuse
	}
	if hold != nil {
		hold(ctx, m)
	}
	receipt, err := r.intake.Receive(ctx, m)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, m)
	if _, known := r.decided[m.ID]; !known && err == nil {
		r.decided[m.ID] = receipt.Decision
	}
	return receipt, err
}

// refusing makes intake fail, as when the database is away; nil ends it.
func (r *rig) refusing(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = err
}

func (r *rig) isReady(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, err)
}

// listener is a running receiving side.
type listener struct {
	quit  func()
	ended chan error
}

// listen runs the receiving side until the test ends or quit is called, and waits until it is connected.
func (r *rig) listen() listener {
	r.Helper()
	before := r.discord.Connected()
	r.mu.Lock()
	reported := len(r.ready)
	r.mu.Unlock()
	l := r.run()
	if !r.discord.AwaitConnected(r.soon(), before+1) {
		r.Fatal("the gateway is not connected")
	}
	// A session that is broken off before mikan has heard of it cannot be resumed. It says that all is well twice: when
	// Discord knows its token, and when its session has begun.
	r.eventually("the session has begun", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		well := 0
		for _, err := range r.ready[reported:] {
			if err == nil {
				well++
			}
		}
		return well >= 2
	})
	return l
}

// run runs the receiving side without waiting.
func (r *rig) run() listener {
	ctx, cancel := context.WithCancel(r.Context())
	inbound := r.adapter.Inbound(adapters.Gateway{Receive: r.receive, Ready: r.isReady})
	l := listener{ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		l.ended <- inbound.Run(ctx)
		close(done)
	}()
	l.quit = func() { cancel(); <-done }
	r.Cleanup(l.quit)
	return l
}

// soon is far longer than anything here takes.
func (r *rig) soon() context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	r.Cleanup(cancel)
	return ctx
}

func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	servicetest.Eventually(r, what, holds)
}

func (r *rig) say(u discordtest.Utterance) string {
	if u.Channel == "" {
		u.Channel = r.general
	}
	if u.User == "" && u.Webhook == "" {
		u.User = r.ann
	}
	return r.discord.Say(u)
}

func (r *rig) mention() string { return discordtest.Mention(r.discord.Bot().ID) }

// decision waits for what became of a message.
func (r *rig) decision(messageID string) adapters.Decision {
	r.Helper()
	var d adapters.Decision
	r.eventually("the message is taken in", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		d = r.decided[messageID]
		return d != ""
	})
	return d
}

// taken is the last message with an id that intake was given.
func (r *rig) taken(messageID string) adapters.Message {
	r.Helper()
	r.decision(messageID)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.received) - 1; i >= 0; i-- {
		if r.received[i].ID == messageID {
			return r.received[i]
		}
	}
	return adapters.Message{}
}

// triggers lists the message ids that wait for a run, in order.
func (r *rig) triggers() []string {
	r.Helper()
	rows, err := r.store.Pool().Query(r.Context(), `SELECT message_id FROM inbox WHERE kind = 'trigger' AND state = 'waiting' ORDER BY id`)
	r.must(err)
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		r.must(rows.Scan(&id))
		ids = append(ids, id)
	}
	r.must(rows.Err())
	return ids
}

// claim begins the oldest waiting run of a session, as its workflow would.
func (r *rig) claim(conversation, key string) store.Run {
	r.Helper()
	officeKey, err := office.Address{Platform: office.Discord, ConversationID: conversation}.Key()
	r.must(err)
	execution := store.Execution{WorkflowID: run.WorkflowID(string(officeKey), key), OriginRun: "x", RunID: "x"}
	claim, err := r.store.Claim(r.Context(), store.Address{OfficeKey: string(officeKey), SessionKey: key}, execution, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
	if err != nil || claim.Kind != store.ClaimedRun {
		r.Fatalf("claimed %+v, %v", claim, err)
	}
	return claim.Run
}

// logged is a message as the chat log has it.
func (r *rig) logged(conversation, messageID string) (store.ChatMessage, error) {
	key, err := office.Address{Platform: office.Discord, ConversationID: conversation}.Key()
	r.must(err)
	return r.store.ChatMessage(r.Context(), string(key), messageID)
}

// awaitText waits until the chat log has a text for a message.
func (r *rig) awaitText(conversation, messageID, text string) {
	r.Helper()
	r.eventually("the log holds "+text, func() bool {
		m, err := r.logged(conversation, messageID)
		return err == nil && m.Text == text
	})
}

// known says something in a place and waits until it is recorded that the place was read up to there.
func (r *rig) known(channelID string) string {
	r.Helper()
	id := r.say(discordtest.Utterance{Channel: channelID, Text: "known"})
	r.eventually("the place is read", func() bool {
		position, _, err := r.store.Cursor(r.Context(), r.stream(channelID))
		return err == nil && position == id
	})
	return id
}

func (r *rig) stream(scope string) store.Stream {
	return store.Stream{Platform: "discord", Installation: r.discord.Bot().ID, Scope: scope}
}

// idAt is the smallest id that Discord gives at a time.
func idAt(at time.Time) string { return strconv.FormatInt((at.UnixMilli()-1_420_070_400_000)<<22, 10) }

func (r *rig) unavailable() error { return fault.New(fault.Unavailable, "the database is away") }

// own are mikan's messages in a channel, as people read them.
func (r *rig) own(channelID string) []string {
	var texts []string
	for _, m := range r.discord.Own(channelID) {
		texts = append(texts, m.Content)
	}
	return texts
}
