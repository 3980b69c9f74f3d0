package deaths

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/office"
)

// scenes are those that all or several platforms can show.
var scenes = []scene{
	{
		name: "a tool runs",
		reaches: []string{
			"receive.commit", "wake", "claim.commit", "begin_step.commit", "step.commit", "tool_started.commit", "tool",
			"command.begin", "model", "intend.commit", "platform.post", "settle.commit", "index.commit", "recall.commit",
			"lease.commit", "prune.commit", "serving.commit", "rate.commit", "people.commit", "log_file.commit",
			"close_calls.commit", "gate", "capture_begin.commit", "capture_gate.commit", "capture_end.commit",
			"cursor.commit@slack,discord,github", "vet@github", "admit.commit@github", "discord.self", "discord.gateway",
			"discord.commands", "discord.post", "slack.auth.test", "slack.ack", "slack.chat.postMessage",
			"slack.users.conversations", "slack.users.list", "telegram.getme", "telegram.setmycommands", "telegram.getwebhookinfo",
			"telegram.getupdates", "telegram.sendchataction", "github.user", "github.comment", "github.permission", "github.react",
			"github.issue", "github.tail",
		},
		play: func(s *stage) {
			s.ask(e2etest.Mark(s.word, 0.1))
			s.promise("the tool's answer is shown", func(shown []adaptertest.Shown) error {
				if len(shown) != 1 || !strings.Contains(shown[0].Text, "done "+s.word) && !strings.Contains(shown[0].Text, "interrupted") {
					return fmt.Errorf("shown is %q", shown)
				}
				return nil
			})
		},
	},
	{
		name: "an answer grows",
		reaches: []string{
			"check.commit", "platform.edit@slack,discord,telegram", "confirm.commit@slack,discord,telegram", "discord.edit",
			"discord.typing", "slack.chat.update",
		},
		play: func(s *stage) {
			s.ask("poem " + s.word)
			s.shows(fmt.Sprintf("verse %d of %s", verses, s.word))
		},
	},
	{
		name: "an answer grows in a thread", on: []office.Platform{office.Slack},
		reaches: []string{
			"slack.chat.startStream", "slack.chat.appendStream", "slack.chat.stopStream", "slack.assistant.threads.setStatus",
		},
		play: func(s *stage) {
			root := s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Stranger, Text: "a thread"})
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "poem " + s.word, Under: root})
			s.shows(fmt.Sprintf("verse %d of %s", verses, s.word))
		},
	},
	{
		name:    "an answer has parts",
		reaches: []string{"confirm.commit@github"},
		play: func(s *stage) {
			s.ask("long " + s.word)
			all := pages(s.platform.Name(), s.word)
			s.promise("each page is shown once", func(shown []adaptertest.Shown) error {
				for n := range all {
					if got := holding(shown, fmt.Sprintf("page-%04d-of-%s", n, s.word)); got != 1 {
						return fmt.Errorf("page %d of %d is in %d of %d messages", n, len(all), got, len(shown))
					}
				}
				for _, m := range shown {
					if !strings.Contains(m.Text, "-of-"+s.word) {
						return fmt.Errorf("and there is %q", e2etest.Tail(m.Text, 100))
					}
				}
				return nil
			})
		},
	},
	{
		name: "a picture is attached",
		reaches: []string{
			"fetch", "files.commit", "discord.message", "discord.download", "slack.file", "telegram.getfile", "telegram.download",
			"github.fetch",
		},
		play: func(s *stage) {
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "look at " + s.word, File: picture(s)})
			s.promise("it is answered", func(shown []adaptertest.Shown) error {
				if len(shown) != 1 || !strings.Contains(shown[0].Text, "look at "+s.word) {
					return fmt.Errorf("shown is %q", shown)
				}
				return nil
			})
			kept := s.rows(`SELECT m.office_key || '/' || (a ->> 'path') FROM chat_log m, jsonb_array_elements(m.attachments) a
				WHERE m.newest AND m.text LIKE '%look at ' || $1 || '%' AND a ->> 'path' <> ''`, s.word)
			if len(kept) != 1 {
				s.Fatalf("kept is %q", kept)
			}
			if got, err := os.ReadFile(filepath.Join(s.Workspace, kept[0])); err != nil || !bytes.Equal(got, picture(s)) {
				s.Errorf("the workspace has %d bytes (%v)", len(got), err)
			}
		},
	},
	{
		name: "mikan attaches a file", on: []office.Platform{office.Slack, office.Discord, office.Telegram},
		reaches: []string{
			"platform.upload", "slack.files.getUploadURLExternal", "slack.files.upload", "slack.files.completeUploadExternal",
			"discord.upload", "telegram.senddocument",
		},
		play: func(s *stage) {
			s.ask("attach " + s.word)
			s.promise("the file is said to be attached", func(shown []adaptertest.Shown) error {
				// The file is a message of its own, and comes at most once.
				if n := holding(shown, "attached "+s.word); n != 1 || len(shown) > 2 {
					return fmt.Errorf("%d messages say so: %q", n, shown)
				}
				return nil
			})
		},
	},
	{
		name: "a stranger asks",
		reaches: []string{
			"intend_first.commit@slack,discord,telegram", "discord.dm", "slack.chat.postEphemeral",
		},
		play: func(s *stage) {
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Stranger, Mention: true, Text: "hello " + s.word})
			s.turnedAway("hello " + s.word)
			s.ask("and " + s.word)
			s.promise("Ann is answered, and the stranger at most once", func(shown []adaptertest.Shown) error {
				told := holding(shown, "I may not answer you here")
				if holding(shown, "echo: and "+s.word) != 1 || holding(shown, "hello") != 0 || told > 1 || len(shown) != 1+told {
					return fmt.Errorf("shown is %q", shown)
				}
				return nil
			})
		},
	},
	{
		name: "talk is judged", on: []office.Platform{office.Slack, office.Discord},
		reaches: []string{"judge", "admit.commit", "turn_away.commit"},
		play: func(s *stage) {
			s.ask("first " + s.word)
			s.shows("echo: first " + s.word)
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Text: "what a day"})
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Text: "could somebody look at " + s.word})
			s.shows("echo: first "+s.word, "echo: could somebody look at "+s.word)
		},
	},
	{
		name: "something is worth remembering",
		reaches: []string{
			"extract", "capture_extract.commit", "capture_intend.commit", "capture_lease.commit", "capture_read.commit",
			"file.replace",
		},
		play: func(s *stage) {
			s.ask("remember " + s.word)
			s.shows("echo: remember " + s.word)
			s.eventually("it is remembered once", func(context.Context) error {
				files, err := filepath.Glob(filepath.Join(s.Workspace, "*", "MEMORY.md"))
				n := 0
				for _, file := range files {
					text, unread := os.ReadFile(file)
					err = errors.Join(err, unread)
					n += strings.Count(string(text), "- remember "+s.word)
				}
				if n != 1 {
					return errors.Join(err, fmt.Errorf("%d times", n))
				}
				return err
			})
		},
	},
	{
		name:    "an edit mentions mikan",
		reaches: []string{"queue_late.commit@slack,discord"},
		play: func(s *stage) {
			id := s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Text: "nothing much"})
			if s.platform.Name() != office.GitHub { // which keeps no talk
				s.logged(id)
			}
			s.room.Edit(s.TB, id, s.platform.Mention()+" then "+s.word)
			s.shows("echo: then " + s.word)
		},
	},
	{
		name: "a message waits and is edited",
		reaches: []string{
			"mark.commit@slack,discord,telegram", "revise.commit", "discord.reaction", "slack.reactions.add",
			"slack.reactions.remove",
		},
		play: func(s *stage) {
			first := s.ask("poem " + s.word)
			under := s.session(first)
			second := s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "typo", Under: under})
			s.logged(second)
			s.room.Edit(s.TB, second, s.platform.Mention()+" edited "+s.word)
			s.promise("both are answered", func(shown []adaptertest.Shown) error {
				if holding(shown, fmt.Sprintf("verse %d of %s", verses, s.word)) != 1 || holding(shown, "echo: ") != 1 {
					return fmt.Errorf("shown is %q", shown)
				}
				return nil
			})
		},
	},
	{
		name:    "a run is stopped",
		reaches: []string{"cancel", "empty_queue.commit", "done.commit", "github.edit", "platform.edit@github"},
		play: func(s *stage) {
			first := s.ask("hang " + s.word)
			s.hangs("hang " + s.word)
			under := s.session(first)
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "behind " + s.word, Under: under})
			s.eventually("the second message waits", func(context.Context) error {
				if s.waiting("behind "+s.word) != 1 {
					return errors.New("not yet")
				}
				return nil
			})
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "stop all", Under: under})
			s.eventually("the run is stopped", func(ctx context.Context) error {
				if got := s.outcomes("hang " + s.word); len(got) != 1 || got[0] != "stopped" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
		},
	},
	{
		name:    "a session is emptied",
		reaches: []string{"reset.commit"},
		play: func(s *stage) {
			first := s.ask("hang " + s.word)
			s.hangs("hang " + s.word)
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "/mikan-new", Under: s.session(first)})
			s.eventually("the run is stopped", func(ctx context.Context) error {
				if got := s.outcomes("hang " + s.word); len(got) != 1 || got[0] != "stopped" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
		},
	},
	{
		name:    "a run says nothing",
		reaches: []string{"platform.delete@slack,discord,telegram", "slack.chat.delete", "discord.delete"},
		play: func(s *stage) {
			s.ask("silent " + s.word)
			s.eventually("the run ends", func(context.Context) error {
				if got := s.outcomes("silent " + s.word); len(got) != 1 || got[0] != "silent" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
			s.promise("nothing is shown", func(shown []adaptertest.Shown) error {
				for _, m := range shown {
					if m.Text != "Thinking…" || s.platform.Name() != office.Telegram {
						return fmt.Errorf("shown is %q", shown)
					}
				}
				return nil
			})
		},
	},
	{
		name: "a post's reply is lost",
		reaches: []string{
			"platform.find@slack,discord,github", "slack.conversations.history", "discord.history", "github.find",
		},
		play: func(s *stage) {
			s.platform.Disturb(s.TB, adaptertest.LostReply, 1)
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
	{
		name:    "a post is refused for a while",
		reaches: []string{"forgo.commit@slack,discord,telegram"},
		play: func(s *stage) {
			s.platform.Disturb(s.TB, adaptertest.RateLimited, 1)
			s.ask("hello " + s.word)
			s.shows("echo: hello " + s.word)
		},
	},
	{
		name:    "a session is summed up",
		reaches: []string{"summary", "compact.commit"},
		play: func(s *stage) {
			under := ""
			for _, more := range []string{"one", "two", "three"} {
				id := s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "talk " + more + s.word, Under: under})
				s.promise(more+" is answered", func(shown []adaptertest.Shown) error {
					if holding(shown, more+s.word) != 1 {
						return fmt.Errorf("shown is %q", shown)
					}
					return nil
				})
				if under == "" {
					under = s.session(id)
				}
			}
			s.room.Say(s.TB, adaptertest.Saying{By: adaptertest.Ann, Mention: true, Text: "/mikan-compact", Under: under})
			s.eventually("the summary is made", func(context.Context) error {
				if got := s.outcomes("/mikan-compact"); len(got) != 1 || got[0] == "" {
					return fmt.Errorf("%q", got)
				}
				return nil
			})
		},
	},
	{
		name:    "a setting is changed by a word",
		reaches: []string{"setting.commit"},
		play: func(s *stage) {
			s.ask("/mikan-auto-reply off")
			s.shows("From the next message on, ")
		},
	},
	{
		name:    "a task is due",
		reaches: []string{"fire_schedule.commit", "schedule.commit"},
		play: func(s *stage) {
			s.greeted()
			office := s.rows(`SELECT office_key FROM chat_log WHERE text LIKE '%hello ' || $1`, s.word)[0]
			if _, err := s.db.Exec(s.TB.Context(), `INSERT INTO schedules (id, office_key, kind, once_at, text) VALUES ($1, $2, 'once', clock_timestamp() + interval '8 seconds', $3)`,
				s.word, office, "due "+s.word); err != nil {
				s.Fatal(err)
			}
			s.shows("hello "+s.word, "due "+s.word)
		},
	},
}

// picture is an image of one pixel.
func picture(s *stage) []byte {
	s.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		s.Fatal(err)
	}
	return b.Bytes()
}

// session is what a message continues a session by, where the next one at top level would begin another.
func (s *stage) session(first string) (under string) {
	s.Helper()
	if !s.platform.Features().Parallel {
		return ""
	}
	return first
}

// logged waits until the chat log has a message.
func (s *stage) logged(id string) {
	s.Helper()
	s.eventually("the message is logged", func(ctx context.Context) error {
		found, err := e2etest.Rows(ctx, s.db, `SELECT message_id FROM chat_log WHERE message_id = $1 OR message_id LIKE '%-' || $1`, id)
		if err == nil && len(found) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// waiting counts the messages with a text that wait for their run.
func (s *stage) waiting(text string) int {
	s.Helper()
	return len(s.rows(`SELECT m.message_id FROM chat_log m JOIN inbox i USING (office_key, message_id) WHERE m.text LIKE '%' || $1`, text))
}

// outcomes are how the runs of the messages with a text have ended in the room; empty: not yet.
func (s *stage) outcomes(text string) []string {
	s.Helper()
	return s.rows(`
		SELECT coalesce(r.outcome, '') FROM runs r JOIN chat_log m ON m.office_key = r.office_key AND m.message_id = r.trigger_message_id
		JOIN offices o ON o.key = r.office_key
		WHERE m.newest AND m.text LIKE '%' || $1 AND (o.conversation_id = $2 OR o.issue_number::text = $2)`, text, s.room.ID())
}

// turnedAway waits until nobody is in doubt about a message any more.
func (s *stage) turnedAway(string) {
	s.Helper()
	s.within(5*time.Second, func() bool { return len(s.rows(`SELECT message_id FROM inbox`)) == 0 })
}
