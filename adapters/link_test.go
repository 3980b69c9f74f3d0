package adapters_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// recorder is a platform that keeps what is posted.
type recorder struct {
	adapters.Outbound
	whispers adapters.Whispers
	posted   []adapters.Outgoing
}

func (r *recorder) Platform() office.Platform { return office.Slack }

func (r *recorder) Capabilities(office.Address) adapters.Capabilities {
	return adapters.Capabilities{Whispers: r.whispers}
}

func (r *recorder) Split(markdown string) []string { return []string{markdown} }

func (r *recorder) Post(_ context.Context, m adapters.Outgoing) (string, error) {
	r.posted = append(r.posted, m)
	return "posted-" + m.Key, nil
}

func TestSessionWordGivesAPrivateLinkThatIsNotStored(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := storetest.Open(t)
	metrics, err := telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, conversation string
		audience           store.Audience
		whispers           adapters.Whispers
		began              bool
		wantLinks          int64
		wantFor            string
		wantLogged         int
	}{
		{"a private conversation", "D1", store.Private, adapters.NoWhispers, true, 1, "", 1},
		{"a shared one that whispers", "C1", store.Shared, adapters.ToOnePerson, true, 1, "U1", 0},
		{"a shared one that cannot", "C2", store.Shared, adapters.NoWhispers, true, 0, "", 1},
		{"before there is a session", "D2", store.Private, adapters.NoWhispers, false, 0, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, err := office.Address{Platform: office.Slack, ConversationID: c.conversation}.Key()
			if err != nil {
				t.Fatal(err)
			}
			said := func(id, text string, kind store.InboxKind) store.InboxRow {
				row := store.InboxRow{OfficeKey: string(key), SessionKey: c.conversation, Kind: kind, Trigger: run.Human, MessageID: id}
				if kind == store.InboxControl {
					row.Word = string(adapters.Session)
				}
				_, err := s.Receive(ctx, store.Arrival{
					Office: store.Office{Key: string(key), Platform: "slack", ConversationID: c.conversation, Audience: c.audience},
					Message: store.ChatMessage{
						OfficeKey: string(key), MessageID: id, SessionKey: c.conversation, AuthorID: "U1", AuthorName: "ann",
						AuthorKind: store.AuthorHuman, Kind: store.ChatMessageKind, Text: text, SentAt: time.Now(),
					},
					Row: &row,
				})
				if err != nil {
					t.Fatal(err)
				}
				return row
			}
			sessionID := ""
			if c.began {
				said("m1", "hello", store.InboxTrigger)
				claim, err := s.Claim(ctx, store.Address{OfficeKey: string(key), SessionKey: c.conversation},
					store.Execution{WorkflowID: "w", OriginRun: c.conversation, RunID: c.conversation}, store.Now, store.Terms{Model: "demo/demo", Zone: time.UTC})
				if err != nil {
					t.Fatal(err)
				}
				sessionID = claim.Run.SessionID
			}
			platform := &recorder{whispers: c.whispers}
			control := &adapters.Control{Store: s, PublicURL: "https://mikan.example/base", Delivery: &adapters.Delivery{
				Store: s, Metrics: metrics, Log: slog.New(slog.DiscardHandler), Outbounds: map[office.Platform]adapters.Outbound{office.Slack: platform},
			}}
			row := said("m2", "/session", store.InboxControl)
			for range 2 { // a sweeper may repeat it
				if err := control.CarryOut(ctx, row); err != nil {
					t.Fatal(err)
				}
			}
			if len(platform.posted) != 1 {
				t.Fatalf("%d messages were posted, want one", len(platform.posted))
			}
			got := platform.posted[0]
			_, token, linked := strings.Cut(got.Markdown, "https://mikan.example/base/session/")
			if linked != (c.wantLinks == 1) || got.OnlyFor != c.wantFor {
				t.Errorf("posted %q for %q", got.Markdown, got.OnlyFor)
			}
			if linked {
				link, known, err := s.Link(ctx, store.HashLink(token))
				if err != nil || !known || link.SessionID != sessionID || link.OfficeKey != string(key) {
					t.Errorf("the link opens %+v, %v, %v", link, known, err)
				}
				revoked, err := s.RevokeLinks(ctx, sessionID)
				if err != nil || revoked != c.wantLinks {
					t.Errorf("%d links were made (%v), want %d", revoked, err, c.wantLinks)
				}
			}
			var stored string
			err = s.Pool().QueryRow(ctx, `SELECT coalesce((SELECT string_agg(d::text, ' ') FROM deliveries d), '') || coalesce((SELECT string_agg(l::text, ' ') FROM chat_log l), '')`).Scan(&stored)
			if err != nil || linked && strings.Contains(stored, token) {
				t.Errorf("the token is stored (%v)", err)
			}
			var logged int
			err = s.Pool().QueryRow(ctx, `SELECT count(*) FROM chat_log WHERE office_key = $1 AND kind = 'notice'`, string(key)).Scan(&logged)
			if err != nil || logged != c.wantLogged {
				t.Errorf("%d notices are in the chat log (%v), want %d", logged, err, c.wantLogged)
			}
		})
	}
}
