package adapters_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/jev"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func rule(effect store.Effect, kind store.PrincipalKind, id string) store.AccessRule {
	return store.AccessRule{Platform: "slack", Kind: kind, Principal: id, Effect: effect}
}

func TestWhoMayTalk(t *testing.T) {
	t.Parallel()
	allow, deny := store.Allow, store.Deny
	user, workspace, chat, repository := store.PrincipalUser, store.PrincipalWorkspace, store.PrincipalChat, store.PrincipalRepository
	for _, c := range []struct {
		name     string
		rules    []store.AccessRule
		allowed  []string // the office's own list
		standing adapters.Standing
		groups   []adapters.Group
		lists    adapters.Lists
		want     adapters.Decision
	}{
		{name: "a member by default", standing: adapters.Member, want: adapters.Queued},
		{name: "a stranger by default", standing: adapters.Stranger, want: adapters.Stranged},
		{name: "nobody knows", standing: adapters.Unknown, want: adapters.Undecided},
		{name: "the office's list decides alone", allowed: []string{"U1"}, standing: adapters.Stranger, rules: []store.AccessRule{rule(deny, user, "U1")}, want: adapters.Queued},
		{name: "not on the office's list", allowed: []string{"U2"}, standing: adapters.Member, want: adapters.Stranged},
		{name: "a stranger who is listed", rules: []store.AccessRule{rule(allow, user, "U1")}, standing: adapters.Stranger, want: adapters.Queued},
		{name: "a member who is not listed", rules: []store.AccessRule{rule(allow, user, "U2")}, standing: adapters.Member, want: adapters.Stranged},
		{name: "unknown, and only people are listed", rules: []store.AccessRule{rule(allow, user, "U2")}, standing: adapters.Unknown, want: adapters.Stranged},
		{name: "unknown, and a workspace is listed", rules: []store.AccessRule{rule(allow, workspace, "T2")}, standing: adapters.Unknown, want: adapters.Undecided},
		{name: "of a listed workspace", rules: []store.AccessRule{rule(allow, workspace, "T2")}, standing: adapters.Stranger, groups: []adapters.Group{{Kind: workspace, ID: "T2"}}, want: adapters.Queued},
		{name: "in a listed channel", rules: []store.AccessRule{rule(allow, chat, "C1")}, standing: adapters.Stranger, want: adapters.Queued},
		{name: "a member who is denied", rules: []store.AccessRule{rule(deny, user, "U1")}, standing: adapters.Member, want: adapters.Stranged},
		{name: "in a denied channel", rules: []store.AccessRule{rule(deny, chat, "C1")}, standing: adapters.Member, want: adapters.Stranged},
		{name: "denied as a group, allowed in person", rules: []store.AccessRule{rule(deny, chat, "C1"), rule(allow, user, "U1")}, standing: adapters.Stranger, want: adapters.Queued},
		{name: "allowed as a group, denied in person", rules: []store.AccessRule{rule(allow, chat, "C1"), rule(deny, user, "U1")}, standing: adapters.Member, want: adapters.Stranged},
		{name: "denied somewhere else", rules: []store.AccessRule{rule(deny, user, "U9")}, standing: adapters.Member, want: adapters.Queued},
		{name: "lists that narrow: listed, and a member", lists: adapters.ListsNarrow, rules: []store.AccessRule{rule(allow, repository, "acme/*")}, groups: []adapters.Group{{Kind: repository, ID: "Acme/x"}}, standing: adapters.Member, want: adapters.Queued},
		{name: "lists that narrow: listed, and no member", lists: adapters.ListsNarrow, rules: []store.AccessRule{rule(allow, repository, "acme/x")}, groups: []adapters.Group{{Kind: repository, ID: "acme/x"}}, standing: adapters.Stranger, want: adapters.Stranged},
		{name: "lists that narrow: a member of what is not listed", lists: adapters.ListsNarrow, rules: []store.AccessRule{rule(allow, repository, "acme/*")}, groups: []adapters.Group{{Kind: repository, ID: "acme-evil/x"}}, standing: adapters.Member, want: adapters.Stranged},
		{name: "lists that narrow: one of two lists", lists: adapters.ListsNarrow, rules: []store.AccessRule{rule(allow, repository, "acme/x"), rule(allow, user, "U2")}, groups: []adapters.Group{{Kind: repository, ID: "acme/x"}}, standing: adapters.Member, want: adapters.Stranged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, s := onStage(t)
			s.can.Lists = c.lists
			p.settings.Allowed = c.allowed
			for _, r := range c.rules {
				if err := p.store.SetAccess(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			m := p.says("U1", "hello", adapters.Mention)
			m.Standing, m.Groups = c.standing, c.groups
			if got := p.receive(m).Decision; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if p.rows("chat_log") < 1 {
				t.Error("it is not logged")
			}
		})
	}
}

func TestListsOfTheConfigurationFileAreRules(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	var listed config.Access
	listed.Slack.Users = []string{"U7"}
	p.intake.Access.Listed = adapters.ListedAccess(listed)
	for author, want := range map[string]adapters.Decision{"U7": adapters.Queued, "U1": adapters.Stranged} {
		if got := p.receive(p.says(author, "hello", adapters.Mention)).Decision; got != want {
			t.Errorf("%s: %s, want %s", author, got, want)
		}
	}
}

func TestAStrangerIsToldOnceADay(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	for _, why := range []adapters.Reason{adapters.Ambient, adapters.Mention, adapters.Mention, adapters.DirectMessage} {
		m := p.says("U1", "hello", why)
		m.Standing = adapters.Stranger
		p.settings.AutoReply = config.AutoReplyOn
		p.receive(m)
	}
	p.eventually("the stranger is told", func() bool { return len(s.seen()) == 1 })
	other := p.says("U2", "hello", adapters.Mention)
	other.Standing = adapters.Stranger
	p.receive(other)
	p.eventually("the other stranger is told", func() bool { return len(s.seen()) == 2 })
	if p.rows("inbox") != 0 {
		t.Error("a stranger's message waits")
	}
	p.eventually("both notices are final", func() bool { return p.rows("deliveries WHERE state <> 'final'") == 0 })
	if got := len(s.seen()); got != 2 {
		t.Errorf("%d notices for two strangers", got)
	}
	if got := p.receive(p.says("U1", "stop", adapters.NotAddressed)).Decision; got != adapters.Commanded {
		t.Errorf("stop, which is everybody's: %s", got)
	}
}

func TestNothingIsKeptOfAStrangerWhereThePlatformSaysSo(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Strangers = adapters.StrangersUnkept
	m := p.says("U1", "hello", adapters.Mention)
	m.Standing = adapters.Stranger
	if got := p.receive(m).Decision; got != adapters.Stranged {
		t.Errorf("%s", got)
	}
	s.standing = func(adapters.Applicant) (adapters.Standing, error) { return adapters.Stranger, nil }
	m = p.says("U1", "hello again", adapters.Mention)
	m.Standing = adapters.Unknown
	if got := p.receive(m).Decision; got != adapters.Undecided {
		t.Errorf("%s", got)
	}
	p.eventually("nothing is kept", func() bool { return p.rows("chat_log") == 0 && p.rows("inbox") == 0 })
	if len(s.seen()) != 0 || p.rows("deliveries") != 0 {
		t.Errorf("it was told: %v", s.seen())
	}
}

func TestStopIsForThoseWhoMayTalkWhereAnybodyCanWrite(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	s.can.Strangers = adapters.StrangersUnkept
	p.running("work")
	s.standing = func(a adapters.Applicant) (adapters.Standing, error) {
		if a.AuthorID == "U2" {
			return adapters.Member, nil
		}
		return adapters.Stranger, nil
	}
	say := func(author string, standing adapters.Standing) adapters.Decision {
		m := p.says(author, "stop", adapters.NotAddressed)
		m.Standing = standing
		return p.receive(m).Decision
	}
	if got := say("U3", adapters.Stranger); got != adapters.Stranged {
		t.Errorf("a stranger's stop: %s", got)
	}
	if got := say("U3", adapters.Unknown); got != adapters.Undecided {
		t.Errorf("somebody's stop: %s", got)
	}
	p.eventually("nothing of it is kept", func() bool { return p.rows("inbox") == 0 })
	if got := p.rows("deliveries"); got != 0 || len(p.temporal.cancelled) != 0 {
		t.Errorf("strangers had %v cancelled and got %d answers", p.temporal.cancelled, got)
	}
	say("U2", adapters.Unknown)
	p.eventually("a member's stop is carried out", func() bool {
		return p.rows("deliveries WHERE state = 'posted'") == 1 && p.rows("inbox") == 0
	})
	if len(p.temporal.cancelled) != 1 {
		t.Errorf("cancelled %v", p.temporal.cancelled)
	}
}

// A message whose author's standing is still looked up becomes a run in a moment: "stop" means that one.
func TestStopWaitsForADecision(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	p.intake.Log = slog.New(slog.DiscardHandler) // the first decision may outlast the test
	var answers atomic.Bool
	asked := make(chan struct{}, 10)
	s.standing = func(adapters.Applicant) (adapters.Standing, error) {
		if answers.Load() {
			return adapters.Member, nil
		}
		asked <- struct{}{}
		return adapters.Unknown, fault.New(fault.Unavailable, "no answer")
	}
	m := p.says("U1", "work", adapters.Mention)
	m.Standing = adapters.Unknown
	r := p.receive(m)
	<-asked
	p.receive(p.says("U1", "stop", adapters.Mention))
	if seen := s.seen(); len(seen) != 0 || p.rows("inbox") != 2 {
		t.Fatalf("it said %q with %d rows in the inbox", seen, p.rows("inbox"))
	}
	answers.Store(true)
	waiting, err := p.store.Undecideds(t.Context(), overdue(office.Slack))
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d undecided, %v", len(waiting), err)
	}
	if err := p.intake.Decide(t.Context(), waiting[0]); err != nil {
		t.Fatal(err)
	}
	p.claim("C1", r)
	words, err := p.store.Controls(t.Context(), overdue(office.Slack))
	if err != nil || len(words) != 1 {
		t.Fatalf("%d words, %v", len(words), err)
	}
	if err := p.intake.Control.CarryOut(t.Context(), words[0]); err != nil {
		t.Fatal(err)
	}
	if len(p.temporal.cancelled) != 1 {
		t.Errorf("cancelled %v", p.temporal.cancelled)
	}
}

func TestStandingIsFoundOutAfterTheMessageIsCommitted(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	asked := make(chan adapters.Applicant)
	s.standing = func(a adapters.Applicant) (adapters.Standing, error) {
		asked <- a
		return adapters.Member, nil
	}
	m := p.says("U1", "hello", adapters.Mention)
	m.Standing, m.Groups = adapters.Unknown, []adapters.Group{{Kind: store.PrincipalWorkspace, ID: "T1"}}
	r := p.receive(m)
	if r.Decision != adapters.Undecided || p.rows("inbox") != 1 || len(p.temporal.woken) != 0 {
		t.Fatalf("%+v, woken %v", r, p.temporal.woken)
	}
	if a := <-asked; a.AuthorID != "U1" || a.Installation != "T1" || len(a.Groups) != 1 || a.Groups[0].ID != "T1" || a.Address != m.Address {
		t.Errorf("asked about %+v", a)
	}
	p.eventually("it is woken", func() bool { return p.temporal.wakes() == 1 })
	p.claim("C1", r)
}

func TestAnUndecidedMessageSurvivesAndIsDecidedByTheSweeper(t *testing.T) {
	t.Parallel()
	p, s := onStage(t)
	m := p.says("U1", "hello", adapters.Mention)
	m.Standing = adapters.Unknown
	r := p.receive(m) // the platform does not answer
	waiting, err := p.store.Undecideds(t.Context(), overdue(office.Slack))
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%d undecided, %v", len(waiting), err)
	}
	if err := p.intake.Decide(t.Context(), waiting[0]); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("decided with %v", err)
	}
	s.standing = func(adapters.Applicant) (adapters.Standing, error) { return adapters.Member, nil }
	for range 2 { // by two at once
		if err := p.intake.Decide(t.Context(), waiting[0]); err != nil {
			t.Error(err)
		}
	}
	if p.temporal.wakes() != 1 {
		t.Errorf("woken %v", p.temporal.woken)
	}
	p.claim("C1", r)
}

// judge is a decision model.
type judge func(jev.Question) (jev.Judgement, error)

func (j judge) Ask(_ context.Context, q jev.Question) (jev.Judgement, error) { return j(q) }

func TestTalkWithoutAMentionFollowsTheAutoReplySetting(t *testing.T) {
	t.Parallel()
	sure := func(p float64) jev.Judge {
		return judge(func(jev.Question) (jev.Judgement, error) { return jev.Judgement{Probability: p}, nil })
	}
	broken := judge(func(jev.Question) (jev.Judgement, error) {
		return jev.Judgement{}, fault.New(fault.Unavailable, "down")
	})
	for _, c := range []struct {
		name  string
		mode  config.AutoReply
		judge jev.Judge
		want  adapters.Decision
		runs  int
	}{
		{"off", config.AutoReplyOff, sure(1), adapters.Logged, 0},
		{"on", config.AutoReplyOn, nil, adapters.Queued, 1},
		{"jev says yes", config.AutoReplyJev, sure(0.5), adapters.Undecided, 1},
		{"jev says no", config.AutoReplyJev, sure(0.49), adapters.Undecided, 0},
		{"jev fails", config.AutoReplyJev, broken, adapters.Undecided, 0},
		{"there is no jev", config.AutoReplyJev, nil, adapters.Undecided, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, _ := onStage(t)
			p.settings.AutoReply, p.intake.Judge = c.mode, c.judge
			if got := p.receive(p.says("U1", "what do you all think?", adapters.Ambient)).Decision; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			p.eventually("it is decided", func() bool {
				undecided, err := p.store.Undecideds(t.Context(), overdue(office.Slack))
				return err == nil && len(undecided) == 0
			})
			if got := p.rows("inbox"); got != c.runs {
				t.Errorf("%d runs wait, want %d", got, c.runs)
			}
			if p.rows("chat_log") != 1 {
				t.Error("it is not logged")
			}
		})
	}
}

func TestAnEditThatMentionsWhileTalkIsJudgedDecides(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	p.intake.Log = slog.New(slog.DiscardHandler) // the judge's answer may come after the test
	asked, letGo := make(chan struct{}), make(chan struct{})
	p.settings.AutoReply = config.AutoReplyJev
	p.intake.Judge = judge(func(jev.Question) (jev.Judgement, error) {
		asked <- struct{}{}
		<-letGo
		return jev.Judgement{}, nil // it is not
	})
	m := p.says("U1", "can you look?", adapters.Ambient)
	r := p.receive(m)
	<-asked
	m.Change, m.Addressed = adapters.Edited, adapters.Mention
	p.receive(m)
	undecided, err := p.store.Undecideds(t.Context(), overdue(office.Slack))
	if err != nil || len(undecided) != 1 {
		t.Fatalf("%d undecided, %v", len(undecided), err)
	}
	late := undecided[0]
	late.Doubt.Ambient = true
	if first, err := p.store.TurnAway(t.Context(), late, store.KeepLogged); first || err != nil {
		t.Errorf("turned away by what was asked before the edit: %v, %v", first, err)
	}
	if err := p.intake.Decide(t.Context(), undecided[0]); err != nil {
		t.Fatal(err)
	}
	close(letGo)
	p.claim("C1", r)
}

func TestJevJudgesWithTheTalkBefore(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	asked := make(chan jev.Question, 1)
	p.settings.AutoReply = config.AutoReplyJev
	p.intake.Judge = judge(func(q jev.Question) (jev.Judgement, error) {
		asked <- q
		return jev.Judgement{}, nil
	})
	p.receive(p.says("U2", "the build is red", adapters.NotAddressed))
	p.receive(p.says("U1", "can somebody look?", adapters.Ambient))
	q := <-asked
	if want := "[ann]: the build is red\n\nThe newest message:\n[ann]: can somebody look?\n"; len(q.State) < len(want) || q.State[len(q.State)-len(want):] != want {
		t.Errorf("asked %q", q.State)
	}
}

func TestFollowUpsNeedASessionThatMikanTakesPartIn(t *testing.T) {
	t.Parallel()
	p, _ := onStage(t)
	if got := p.receive(p.says("U1", "and then?", adapters.FollowUp)).Decision; got != adapters.Logged {
		t.Errorf("before: %s", got)
	}
	p.receive(p.says("U1", "hello", adapters.Mention))
	if got := p.receive(p.says("U1", "and then?", adapters.FollowUp)).Decision; got != adapters.Queued {
		t.Errorf("after: %s", got)
	}
}
