package deaths

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/office"
)

func init() {
	scenes = slices.Concat(scenes, slackScenes, discordScenes, telegramScenes, gitHubScenes, operatorScenes)
}

// The parts of the local servers that only one platform has.
type (
	slackServer interface {
		DropSockets() int
		OpenHome(user string) error
		OpenAssistant(user, context string) (slacktest.AssistantThread, error)
		Command(context.Context, slacktest.Command) (slacktest.Answered, error)
		Say(slacktest.Saying) (slacktest.Message, error)
		Messages(slacktest.Which) []slacktest.Visible
		Inject(slacktest.Fault) error
		CreateTeam(slacktest.NewTeam) (slacktest.Team, error)
		CreateUser(slacktest.NewUser) (slacktest.User, error)
		CreateFile(slacktest.NewFile) (slacktest.File, error)
		CreateChannel(slacktest.NewChannel) (slacktest.Channel, error)
		Join(channel, user, inviter string) error
		Team() slacktest.Team
	}
	discordServer interface {
		Invoke(channelID, userID, name string, args map[string]string) string
		Whispers(interactionID string) []discordtest.Message
		Fail(discordtest.Fault)
		DM(userID string) string
		Say(discordtest.Utterance) string
		Own(channelID string) []discordtest.Message
	}
	telegramServer interface {
		Migrate(group, supergroup int64)
		FromBot(chat int64) []telegramtest.Seen
		Say(telegramtest.Said) int
	}
	gitHubServer interface {
		Shift(time.Duration)
		LoseDeliveries(n int)
	}
)

func (s *stage) slack() slackServer       { return s.platform.(slackServer) }
func (s *stage) discord() discordServer   { return s.platform.(discordServer) }
func (s *stage) telegram() telegramServer { return s.platform.(telegramServer) }
func (s *stage) gitHub() gitHubServer     { return s.platform.(gitHubServer) }

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// once waits until exactly one of some texts holds a piece, and promises that it stays so.
func (s *stage) once(piece string, texts func() []string) {
	s.Helper()
	s.promise("it is said once: "+piece, func([]adaptertest.Shown) error {
		n := 0
		for _, text := range texts() {
			if strings.Contains(text, piece) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d of %q", n, texts())
		}
		return nil
	})
}

var slackScenes = []scene{
	{
		name: "Slack ends the sockets", on: []office.Platform{office.Slack},
		reaches: []string{"slack.apps.connections.open.before"},
		play: func(s *stage) {
			s.greeted()
			s.slack().DropSockets()
			s.ask("again " + s.word)
			s.shows("echo: hello "+s.word, "echo: again "+s.word)
		},
	},
	{
		name: "somebody opens mikan's home", on: []office.Platform{office.Slack},
		reaches: []string{"slack.views.publish"},
		play: func(s *stage) {
			s.must(s.slack().OpenHome(s.platform.Person(adaptertest.Ann)))
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
	{
		name: "somebody opens an assistant thread", on: []office.Platform{office.Slack},
		reaches: []string{"slack.assistant.threads.setSuggestedPrompts", "slack.assistant.threads.setTitle"},
		play: func(s *stage) {
			ann := s.platform.Person(adaptertest.Ann)
			pane, err := s.slack().OpenAssistant(ann, "")
			s.must(err)
			greeted := func() bool {
				return slices.ContainsFunc(s.slack().Messages(slacktest.Which{Channel: pane.Channel, Thread: pane.Thread, ByApp: true}), func(m slacktest.Visible) bool { return strings.Contains(m.Shown, "Ask me anything") })
			}
			s.within(5*time.Second, greeted) // who is not greeted can ask all the same
			s.mustSay(slacktest.Saying{Channel: pane.Channel, User: ann, Thread: pane.Thread, Text: "hello " + s.word})
			s.once("echo: hello "+s.word, func() []string { return s.slackTexts(pane.Channel) })
		},
	},
	{
		name: "somebody wants a private link by a command", on: []office.Platform{office.Slack},
		reaches: []string{"link.commit"},
		play: func(s *stage) {
			s.greeted()
			ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
			defer cancel()
			// Whom Slack tells that the command failed gives it again.
			for {
				answered, err := s.slack().Command(ctx, slacktest.Command{Channel: s.room.ID(), User: s.platform.Person(adaptertest.Ann), Command: "/mikan-session"})
				if err == nil && answered.Acked || ctx.Err() != nil {
					break
				}
			}
			s.promise("there is a link", func(shown []adaptertest.Shown) error {
				if holding(shown, "This session, for 24 hours") == 0 { // it is for one person's eyes, and cannot be found again
					return fmt.Errorf("shown is %q", shown)
				}
				return nil
			})
		},
	},
	{
		name: "a stream's reply is lost", on: []office.Platform{office.Slack},
		reaches: []string{"slack.conversations.replies"},
		play: func(s *stage) {
			s.must(s.slack().Inject(slacktest.Fault{Method: "chat.startStream", Kind: slacktest.DropReply, Times: 1}))
			root := s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Stranger, Text: "a thread"})
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "poem " + s.word, Under: root})
			s.shows(fmt.Sprintf("verse %d of %s", verses, s.word))
		},
	},
	{
		name: "somebody of another workspace shares a file", on: []office.Platform{office.Slack},
		reaches: []string{"slack.files.info"},
		play: func(s *stage) {
			team, err := s.slack().CreateTeam(slacktest.NewTeam{Name: s.word})
			s.must(err)
			guest, err := s.slack().CreateUser(slacktest.NewUser{Name: s.word, Team: team.ID})
			s.must(err)
			f, err := s.slack().CreateFile(slacktest.NewFile{User: guest.ID, Name: "theirs.png", Content: picture(s)})
			s.must(err)
			c, err := s.slack().CreateChannel(slacktest.NewChannel{Name: s.word, WithBot: true, Members: []string{guest.ID, s.platform.Person(adaptertest.Ann)}, SharedWith: []string{team.ID}})
			s.must(err)
			if out := s.Mikan("access", "allow", "slack", "user", guest.ID); out.Code != 0 {
				s.Fatalf("%+v", out)
			}
			defer s.Mikan("access", "remove", "slack", "user", guest.ID)
			s.mustSay(slacktest.Saying{Channel: c.ID, User: guest.ID, Text: s.platform.Mention() + " see " + s.word, Files: []string{f.ID}})
			s.once("echo: see "+s.word, func() []string { return s.slackTexts(c.ID) })
		},
	},
	{
		name: "somebody new asks", on: []office.Platform{office.Slack},
		reaches: []string{"slack.users.info", "vet", "admit.commit"},
		play: func(s *stage) {
			s.greeted() // everybody of the workspace is known by now
			bob, err := s.slack().CreateUser(slacktest.NewUser{Name: s.word})
			s.must(err)
			c, err := s.slack().CreateChannel(slacktest.NewChannel{Name: s.word, WithBot: true, Members: []string{bob.ID}})
			s.must(err)
			s.mustSay(slacktest.Saying{Channel: c.ID, User: bob.ID, Text: s.platform.Mention() + " hi " + s.word})
			s.once("echo: hi "+s.word, func() []string { return s.slackTexts(c.ID) })
		},
	},
	{
		name: "mikan is added to a channel", on: []office.Platform{office.Slack},
		reaches: []string{"slack.conversations.info"},
		play: func(s *stage) {
			ann := s.platform.Person(adaptertest.Ann)
			c, err := s.slack().CreateChannel(slacktest.NewChannel{Name: s.word, Members: []string{ann}})
			s.must(err)
			s.mustSay(slacktest.Saying{Channel: c.ID, User: ann, Text: "before"})
			s.must(s.slack().Join(c.ID, s.slack().Team().BotUser, ann))
			s.mustSay(slacktest.Saying{Channel: c.ID, User: ann, Text: s.platform.Mention() + " hello " + s.word})
			s.once("echo: hello "+s.word, func() []string { return s.slackTexts(c.ID) })
		},
	},
}

func (s *stage) mustSay(what slacktest.Saying) {
	s.Helper()
	_, err := s.slack().Say(what)
	s.must(err)
}

// slackTexts are what the app shows in a channel.
func (s *stage) slackTexts(channel string) []string {
	var all []string
	for _, m := range s.slack().Messages(slacktest.Which{Channel: channel, ByApp: true}) {
		all = append(all, m.Shown)
	}
	return all
}

var discordScenes = []scene{
	{
		name: "somebody gives a command", on: []office.Platform{office.Discord},
		reaches: []string{"discord.callback"},
		play: func(s *stage) {
			id := s.discord().Invoke(s.room.ID(), s.platform.Person(adaptertest.Ann), "help", nil)
			s.once("Write what you want done", func() []string { return s.answersTo(id) })
		},
	},
	{
		name: "a command's answer is long", on: []office.Platform{office.Discord},
		reaches: []string{"discord.whisper.more"},
		play: func(s *stage) {
			s.greeted()
			s.remembered()
			id := s.discord().Invoke(s.room.ID(), s.platform.Person(adaptertest.Ann), "memory", nil)
			s.once("names of "+s.word, func() []string { return s.answersTo(id) })
			s.promise("the rest follows, and again where nobody knows whether it came", func([]adaptertest.Shown) error {
				n := 0
				for _, text := range s.answersTo(id) {
					n += strings.Count(text, "the last of "+s.word)
				}
				if n < 1 || n > 2 {
					return fmt.Errorf("%d of %q", n, s.answersTo(id))
				}
				return nil
			})
		},
	},
	{
		name: "the reply to a command's answer is lost", on: []office.Platform{office.Discord},
		reaches: []string{"discord.whisper.find", "discord.whisper"},
		play: func(s *stage) {
			s.discord().Fail(discordtest.Fault{Method: http.MethodPatch, Route: "/webhooks/{app}/{token}/messages/{message}", Lost: discordtest.ReplyLost})
			s.discord().Fail(discordtest.Fault{Method: http.MethodPost, Route: "/interactions/{interaction}/{token}/callback", Lost: discordtest.ReplyLost, Times: 2})
			id := s.discord().Invoke(s.room.ID(), s.platform.Person(adaptertest.Ann), "help", nil)
			s.once("Write what you want done", func() []string { return s.answersTo(id) })
		},
	},
	{
		name: "a role lets somebody write directly", on: []office.Platform{office.Discord},
		reaches: []string{"discord.guilds", "discord.member", "vet", "admit.commit"},
		before: func(s *stage) {
			if out := s.Mikan("access", "allow", "discord", "role", "77"); out.Code != 0 {
				s.Fatalf("%+v", out)
			}
		},
		play: func(s *stage) {
			s.greeted() // nobody finds a first direct message that came while no gateway was connected
			bob := s.platform.(interface{ AddUser(string) string }).AddUser(s.word)
			d := s.platform.(interface {
				Join(guild, user string, roles ...string)
				Guild() string
			})
			d.Join(d.Guild(), bob, "77")
			dm := s.discord().DM(bob)
			s.discord().Say(discordtest.Utterance{Channel: dm, User: bob, Text: "hello " + s.word})
			s.once("echo: hello "+s.word, func() []string { return contents(s.discord().Own(dm)) })
		},
	},
	{
		name: "somebody writes directly while no gateway is connected", on: []office.Platform{office.Discord},
		reaches: []string{"discord.channel"},
		before: func(s *stage) {
			// What earlier scenes left would be read as soon as a gateway starts, and the death come before the first message.
			_, err := s.db.Exec(s.Context(), `DELETE FROM cursors WHERE scope <> ''`)
			s.must(err)
		},
		play: func(s *stage) {
			s.greeted()
			ann := s.platform.Person(adaptertest.Ann)
			dm := s.discord().DM(ann)
			s.discord().Say(discordtest.Utterance{Channel: dm, User: ann, Text: "hello " + s.word})
			s.once("echo: hello "+s.word, func() []string { return contents(s.discord().Own(dm)) })
			s.regained()
			s.discord().Say(discordtest.Utterance{Channel: dm, User: ann, Text: "again " + s.word})
			s.once("echo: again "+s.word, func() []string { return contents(s.discord().Own(dm)) })
		},
	},
	{
		name: "commands are refused as a whole", on: []office.Platform{office.Discord},
		reaches: []string{"discord.command"},
		before: func(s *stage) {
			s.discord().Fail(discordtest.Fault{Method: http.MethodPut, Route: "/applications/{application}/commands", Status: http.StatusBadRequest, Code: 50035, Times: 2})
		},
		play: func(s *stage) {
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
}

// answersTo are what a command was answered with: for its user alone, or, when Discord would not wait any more, in the room.
func (s *stage) answersTo(id string) []string {
	return append(contents(s.discord().Whispers(id)), contents(s.discord().Own(s.room.ID()))...)
}

func contents(all []discordtest.Message) []string {
	var texts []string
	for _, m := range all {
		texts = append(texts, m.Content)
	}
	return texts
}

// webhook are the settings with which Telegram posts to mikan.
var webhook = []string{"TELEGRAM_WEBHOOK_SECRET=a-secret-of-the-tests", "MIKAN_PUBLIC_URL=" + front}

// supergroups are numbers of chats that nobody has.
const supergroups = -1_002_000_000_000

var telegramScenes = []scene{
	{
		name: "mikan attaches a picture", on: []office.Platform{office.Telegram},
		reaches: []string{"telegram.sendphoto"},
		play: func(s *stage) {
			s.ask("picture " + s.word)
			s.promise("the picture is said to be attached", func(shown []adaptertest.Shown) error {
				if n := holding(shown, "attached "+s.word); n != 1 || len(shown) > 2 {
					return fmt.Errorf("%d messages say so: %q", n, shown)
				}
				return nil
			})
		},
	},
	{
		name: "a group becomes a supergroup", on: []office.Platform{office.Telegram},
		reaches: []string{"alias.commit"},
		play: func(s *stage) {
			s.greeted()
			group, err := strconv.ParseInt(s.room.ID(), 10, 64)
			s.must(err)
			bigger := supergroups + group
			s.telegram().Migrate(group, bigger)
			ann, err := strconv.ParseInt(s.platform.Person(adaptertest.Ann), 10, 64)
			s.must(err)
			s.telegram().Say(telegramtest.Said{Chat: bigger, From: ann, Text: s.platform.Mention() + " again " + s.word})
			s.once("echo: again "+s.word, func() []string {
				var all []string
				for _, m := range s.telegram().FromBot(bigger) {
					all = append(all, m.Text)
				}
				return all
			})
		},
	},
	{
		name: "updates come by a webhook", on: []office.Platform{office.Telegram},
		reaches: []string{"telegram.setwebhook", "cursor.commit"},
		with:    webhook,
		before:  func(s *stage) { s.platform.(interface{ HostLocally() }).HostLocally() },
		play: func(s *stage) {
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
	{
		name: "a webhook is given up", on: []office.Platform{office.Telegram},
		reaches: []string{"telegram.deletewebhook"},
		before: func(s *stage) {
			server := s.platform.(interface {
				HostLocally()
				Webhook() string
			})
			server.HostLocally()
			earlier := s.Gateway(scene{with: webhook}.settings(s.lane)...)
			s.eventually("the webhook is set", func(context.Context) error {
				if server.Webhook() == "" {
					return errors.New("not yet")
				}
				return nil
			})
			earlier.Kill()
			s.clear()
		},
		play: func(s *stage) {
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
}

var gitHubScenes = []scene{
	{
		name: "webhooks are lost", on: []office.Platform{office.GitHub},
		reaches: []string{"github.list", "github.deliveries", "github.cursor", "github.redeliver"},
		play: func(s *stage) {
			s.ask("first " + s.word)
			s.shows("echo: first " + s.word)
			s.gitHub().LoseDeliveries(1)
			s.ask("lost " + s.word)
			// A younger delivery may still be on its way: mikan does not ask for it again.
			s.within(31*time.Second, func() bool { return false })
			s.regained()
			s.shows("echo: first "+s.word, "echo: lost "+s.word)
		},
	},
	{
		name: "the model reads and writes on GitHub", on: []office.Platform{office.GitHub},
		reaches: []string{"github.tool_read", "github.tool_write"},
		play: func(s *stage) {
			s.ask("label " + s.word + " " + s.room.ID())
			s.shows("labelled " + s.word)
		},
	},
	{
		name: "news are old", on: []office.Platform{office.GitHub},
		reaches: []string{"github.renew"},
		play: func(s *stage) {
			s.gitHub().Shift(10 * time.Minute)
			defer s.gitHub().Shift(80 * time.Second)
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
}

// operatorScenes are those in which a command of the operator's is what dies. They are given on one platform.
var operatorScenes = []scene{
	{name: "the operator checks the installation", reaches: []string{"discord.application", "discord.commands.list", "github.check"}, play: func(s *stage) {
		s.greeted() // GitHub's repositories are checked once something has come from them
		s.command("doctor")
	}},
	{name: "the operator lets somebody in", on: []office.Platform{office.Slack}, reaches: []string{"access.commit"}, play: func(s *stage) {
		s.command("access", "allow", "slack", "user", "U"+s.word)
		s.command("access", "remove", "slack", "user", "U"+s.word)
	}},
	{name: "the operator changes a setting", on: []office.Platform{office.Slack}, play: func(s *stage) {
		s.greeted()
		key := s.rows(`SELECT office_key FROM chat_log WHERE text LIKE '%hello ' || $1`, s.word)[0]
		s.command("office", "set", key, "auto-reply", "off")
	}},
	{name: "the operator takes a link back", on: []office.Platform{office.Slack}, reaches: []string{"revoke.commit"}, play: func(s *stage) {
		s.greeted()
		session := s.rows(`SELECT r.session_id FROM runs r JOIN chat_log m ON m.message_id = r.trigger_message_id WHERE m.text LIKE '%hello ' || $1`, s.word)[0]
		s.command("session", "revoke", session)
	}},
	{name: "the operator reverts a memory", on: []office.Platform{office.Slack}, reaches: []string{"capture_revert.commit"}, play: func(s *stage) {
		s.command("memory", "revert", s.remembers())
	}},
	{name: "the operator pauses a task", on: []office.Platform{office.Slack}, play: func(s *stage) {
		s.greeted()
		key := s.rows(`SELECT office_key FROM chat_log WHERE text LIKE '%hello ' || $1`, s.word)[0]
		_, err := s.db.Exec(s.Context(), `INSERT INTO schedules (id, office_key, kind, cron, text) VALUES ($1, $2, 'cron', '0 0 1 1 *', 'x')`, s.word, key)
		s.must(err)
		s.command("schedule", "pause", s.word)
	}},
}

// remembers has mikan remember something, and tells whose run's memory it is.
func (s *stage) remembers() (runID string) {
	s.Helper()
	s.ask("remember " + s.word)
	s.shows("echo: remember " + s.word)
	s.eventually("it is written down", func(context.Context) error {
		written := s.rows(`SELECT c.run_id FROM captures c JOIN runs r ON r.id = c.run_id JOIN chat_log m ON m.message_id = r.trigger_message_id AND m.office_key = r.office_key
			WHERE c.state = 'ended' AND c.outcome = 'written' AND m.text LIKE '%remember ' || $1`, s.word)
		if len(written) != 1 {
			return errors.New("not yet")
		}
		runID = written[0]
		return nil
	})
	return runID
}

// command gives a command, and again when it has died where it was armed to: it may have been carried out.
func (s *stage) command(arguments ...string) {
	s.Helper()
	arguments = append(arguments, "--data-dir", s.DataDir)
	out := e2etest.Command(s.TB, e2etest.MikanPath(s.TB), s.Environ(s.armed), arguments...)
	if out.Code == -1 {
		s.commanded = true
		out = e2etest.Command(s.TB, e2etest.MikanPath(s.TB), s.Environ(), arguments...)
	}
	// 1: something is broken, or was done already.
	if out.Code != 0 && (!s.commanded || out.Code == 1 && !strings.Contains(out.Stderr, " before")) {
		s.Errorf("%v: %+v", arguments, out)
	}
}

// regained has a gateway start anew: it reads what it missed.
func (s *stage) regained() {
	s.lane.mu.Lock()
	p := s.gateway
	s.lane.mu.Unlock()
	s.cast.kill(p)
}

// remembered has mikan remember so much that what it shows of it fits no single message: Discord wants a backslash before
// each of the lines that join words.
func (s *stage) remembered() {
	s.Helper()
	key := s.rows(`SELECT office_key FROM chat_log WHERE kind = 'message' AND text LIKE '%hello ' || $1`, s.word)[0]
	text := "## Captured knowledge\n\n- names of " + s.word + ": " + strings.Repeat("a_b_c_d_e ", 140) + "\n- the last of " + s.word
	s.must(os.WriteFile(filepath.Join(s.Workspace, key, "MEMORY.md"), []byte(text), 0o600))
}
