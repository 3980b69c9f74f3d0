package discord_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/fault"
)

// Discord replays what a connection missed when its session is resumed, and may repeat what was seen.
func TestAResumedSessionMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	first := r.say(discordtest.Utterance{Text: r.mention() + " one"})
	r.decision(first)
	r.discord.Redeliver()
	r.discord.DropConnections()
	missed := r.say(discordtest.Utterance{Text: r.mention() + " two"})
	r.decision(missed)
	r.discord.Rewind(20)
	last := r.say(discordtest.Utterance{Text: r.mention() + " three"})
	r.decision(last)
	if got := r.triggers(); !slices.Equal(got, []string{first, missed, last}) {
		t.Errorf("runs for %v, want one each for %v", got, []string{first, missed, last})
	}
	if r.discord.Resumed() != 1 || r.discord.Identified() != 1 {
		t.Errorf("%d resumes, %d identifies", r.discord.Resumed(), r.discord.Identified())
	}
}

// A server that speaks Discord's protocol may have no history, and tell of nothing that an event tells, too.
func TestWhatOnlyEventsTellIsAnswered(t *testing.T) {
	t.Parallel()
	for name, absent := range map[string][]string{
		"no gateway for anybody": {"/gateway"},
		"no history":             {"/channels/{channel}/messages"},
		"no commands":            {"/applications/{application}/commands"},
		"no members":             {"/guilds/{guild}/members/{user}"},
		"none of them":           {"/gateway", "/channels/{channel}", "/channels/{channel}/messages", "/guilds/{guild}/members/{user}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, discordtest.Options{})
			for _, route := range absent {
				for _, method := range []string{"GET", "PUT"} {
					r.discord.Fail(discordtest.Fault{Method: method, Route: route, Status: 404, Times: 1000})
				}
			}
			dm := r.discord.DM(r.ann)
			r.listen()
			at := []string{r.say(discordtest.Utterance{Text: r.mention() + " at once"}), r.say(discordtest.Utterance{Text: r.mention() + " again"})}
			for _, id := range at {
				if got := r.decision(id); got != adapters.Queued {
					t.Errorf("decided %s", got)
				}
			}
			r.decision(r.say(discordtest.Utterance{Channel: dm, Text: "hello"}))
			r.eventually("all of it is to be answered", func() bool { return len(r.triggers()) == 3 })
			r.discord.SendRaw("CHANNEL_DELETE", map[string]any{"id": r.general})
			if name == "none of them" { // nobody says where the channel belongs
				if got := r.decision(r.say(discordtest.Utterance{Text: r.mention() + " where?"})); got != adapters.Queued {
					t.Errorf("in an unknown channel: %s", got)
				}
			}
		})
	}
}

func TestOnDiscordsRequestTheConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.discord.AskToReconnect()
	r.eventually("the session is resumed", func() bool { return r.discord.Resumed() == 1 })
	if got := r.decision(r.say(discordtest.Utterance{Text: r.mention() + " hello"})); got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
}

// A session that Discord has forgotten replays nothing: what was said meanwhile is in the history.
func TestAGapIsReadFromTheHistoryOfEveryKindOfPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	dm := r.discord.DM(r.ann)
	thread := r.discord.OpenThread(r.general, "", "a thread")
	dormant := r.discord.OpenThread(r.general, "", "archived since")
	r.listen()
	for _, place := range []string{r.general, thread, dormant} {
		r.known(place)
	}
	want := []string{r.known(dm)} // whatever is said directly is answered
	r.discord.ForgetSessions()
	r.discord.DropConnections()
	fresh := r.discord.AddChannel(r.guild, "new channel")
	for _, place := range []string{r.general, dm, thread, dormant, fresh} {
		want = append(want, r.say(discordtest.Utterance{Channel: place, Text: r.mention() + " missed"}))
	}
	r.discord.Restrict(dormant, "archived")
	edited := r.say(discordtest.Utterance{Text: "missed"})
	r.discord.EditText(r.general, edited, "missed and edited")
	r.eventually("all are found", func() bool { return len(r.triggers()) == len(want) })
	got := r.triggers()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("runs for %v, want %v", got, want)
	}
	r.awaitText(r.general, edited, "missed and edited")
	if r.discord.Identified() != 2 {
		t.Errorf("%d identifies", r.discord.Identified())
	}
}

func TestAProcessThatComesBackReadsWhatItMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	first := r.listen()
	r.known(r.general)
	first.quit()
	old := r.say(discordtest.Utterance{Text: r.mention() + " of the day before yesterday", At: time.Now().Add(-48 * time.Hour)})
	var want []string
	for range 120 { // more than a page
		want = append(want, r.say(discordtest.Utterance{Text: r.mention() + " missed"}))
	}
	r.wire("another process")
	r.listen()
	r.eventually("all are found", func() bool { return len(r.triggers()) >= len(want) })
	live := r.say(discordtest.Utterance{Text: r.mention() + " live"})
	r.decision(live)
	if got := r.triggers(); !slices.Equal(got, append(want, live)) {
		t.Errorf("runs for %d messages, in order: %t", len(got), slices.IsSorted(got))
	}
	if _, err := r.logged(r.general, old); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("what was said before the cursor was read: %v", err)
	}
}

func TestWhatIsTooOldIsLoggedAndNotAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.must(r.store.SetCursor(t.Context(), r.stream(""), idAt(time.Now().Add(-72*time.Hour))))
	old := r.say(discordtest.Utterance{Text: r.mention() + " two days old", At: time.Now().Add(-48 * time.Hour)})
	fresh := r.say(discordtest.Utterance{Text: r.mention() + " an hour old", At: time.Now().Add(-time.Hour)})
	r.listen()
	if got := r.decision(old); got != adapters.Logged {
		t.Errorf("an old message: %s", got)
	}
	if got := r.decision(fresh); got != adapters.Queued {
		t.Errorf("a younger one: %s", got)
	}
}

// An edit that newly mentions mikan calls it, also when it comes while nobody listens.
func TestAMessageThatWasReadIsReadAgainForItsEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	first := r.listen()
	said := r.say(discordtest.Utterance{Text: "what a day"})
	if got := r.decision(said); got != adapters.Logged {
		t.Errorf("talk: %s", got)
	}
	r.known(r.general)
	first.quit()
	r.discord.EditText(r.general, said, r.mention()+" what a day")
	r.wire("another process")
	r.listen()
	r.eventually("the edit calls mikan", func() bool { return slices.Equal(r.triggers(), []string{said}) })
}

func TestAChannelWithoutNewsCostsNoCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	first := r.listen()
	r.decision(r.say(discordtest.Utterance{Text: "some time ago", At: time.Now().Add(-10 * time.Minute)}))
	first.quit()
	before := len(r.discord.Calls("GET", "/channels/{channel}/messages"))
	r.listen()
	r.decision(r.say(discordtest.Utterance{Channel: r.discord.AddChannel(r.guild, "other"), Text: "hello"}))
	for _, c := range r.discord.Calls("GET", "/channels/{channel}/messages")[before:] {
		if strings.Contains(c.Path, r.general) {
			t.Errorf("asked for %s", c.Path)
		}
	}
}

// While the database is away nothing is lost: the event is tried again, and in the end the channel's history is read.
func TestAMessageThatCannotBeStoredIsTakenInLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	r.known(r.general)
	r.refusing(r.unavailable())
	lost := r.say(discordtest.Utterance{Text: r.mention() + " one"})
	also := r.say(discordtest.Utterance{Text: r.mention() + " two"})
	r.discord.ForgetSessions()
	r.discord.DropConnections() // the memory of the connection goes, too
	r.discord.AwaitConnected(r.soon(), 1)
	r.refusing(nil)
	r.decision(lost)
	r.decision(also)
	if got := r.triggers(); !slices.Equal(got, []string{lost, also}) {
		t.Errorf("runs for %v", got)
	}
}

func TestTwoProcessesHaveOneConnectionAndTheSecondTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	first := r.listen()
	r.wire("second process")
	second := r.run()
	r.known(r.general)
	if n := r.discord.Connected(); n != 1 || r.discord.Identified() != 1 {
		t.Fatalf("%d connections, %d identifies", n, r.discord.Identified())
	}
	first.quit()
	missed := r.say(discordtest.Utterance{Text: r.mention() + " hello"})
	if got := r.decision(missed); got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
	if r.discord.Identified() != 2 || r.discord.Connected() != 1 {
		t.Errorf("%d identifies, %d connections", r.discord.Identified(), r.discord.Connected())
	}
	second.quit()
}

func TestARefusalEndsTheAdapterWithWhatToMend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after func(*discordtest.Server)
		says          string
	}{
		"a token that is worthless": {before: func(s *discordtest.Server) { s.Revoke() }, says: "DISCORD_BOT_TOKEN"},
		"a token that is revoked":   {after: func(s *discordtest.Server) { s.Revoke(); s.DropConnections() }, says: "4004"},
		"no message content":        {before: func(s *discordtest.Server) { s.WithoutMessageContent() }, says: "Message Content Intent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, discordtest.Options{})
			var l listener
			if c.before != nil {
				c.before(r.discord)
				l = r.run()
			} else {
				l = r.listen()
				c.after(r.discord)
			}
			select {
			case err := <-l.ended:
				if fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), discordtest.Token) {
					t.Errorf("ended with %v", err)
				}
				l.ended <- err
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
		})
	}
}

func TestOutagesDoNotEndTheAdapter(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.discord.Fail(discordtest.Fault{Method: "GET", Route: "/users/@me", Status: 503})
	r.discord.Fail(discordtest.Fault{Method: "GET", Route: "/gateway", Status: 502})
	r.listen()
	r.discord.CloseAll(4000)
	r.eventually("the session is resumed", func() bool { return r.discord.Resumed() == 1 })
	if got := r.decision(r.say(discordtest.Utterance{Text: r.mention() + " hello"})); got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	degraded := slices.ContainsFunc(r.ready, func(err error) bool { return fault.CodeOf(err) == fault.Unavailable })
	if !degraded || r.ready[len(r.ready)-1] != nil {
		t.Errorf("the connection was reported as %v", r.ready)
	}
}

func TestASlowChannelHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	other := r.discord.AddChannel(r.guild, "other")
	r.listen()
	r.known(r.general)
	r.known(other)
	release := make(chan struct{})
	held := make(chan struct{}, 1)
	r.mu.Lock()
	r.hold = func(ctx context.Context, m adapters.Message) {
		if m.Text != "slow" {
			return
		}
		held <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	r.mu.Unlock()
	slow := r.say(discordtest.Utterance{Text: "slow"})
	<-held
	if got := r.decision(r.say(discordtest.Utterance{Channel: other, Text: r.mention() + " quick"})); got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
	close(release)
	r.decision(slow)
}

// Called into a thread that it has never heard, mikan knows what was said there; none of it is answered.
func TestTheFirstWordInAPlaceBringsItsPast(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	thread := r.discord.OpenThread(r.general, "", "a thread")
	var said []string
	for range 12 {
		said = append(said, r.say(discordtest.Utterance{Channel: thread, Text: r.mention() + " before mikan came"}))
	}
	r.listen()
	call := r.say(discordtest.Utterance{Channel: thread, Text: r.mention() + " what do you think"})
	if got := r.decision(call); got != adapters.Queued {
		t.Errorf("decided %s", got)
	}
	for _, id := range said {
		if _, err := r.logged(r.general, id); err != nil {
			t.Errorf("the log lacks what was said before: %v", err)
		}
	}
	if got := r.triggers(); !slices.Equal(got, []string{call}) {
		t.Errorf("runs for %v", got)
	}
	reads := len(r.discord.Calls("GET", create))
	r.known(thread)
	if n := len(r.discord.Calls("GET", create)); n != reads {
		t.Errorf("the past was read %d times more", n-reads)
	}
}
