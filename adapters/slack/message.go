package slack

import (
	"context"
	"strings"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// kind is the kind of a conversation, as events call it.
type kind string

// The kinds. A public and a private channel differ in nothing that matters here.
const (
	directMessage kind = "im"
	groupMessage  kind = "mpim"
	publicChannel kind = "channel"
)

// kindOf tells the kind of an event's conversation. Mentions come without it; in a direct message there are none.
func kindOf(e event) kind {
	switch e.ChannelType {
	case "im":
		return directMessage
	case "mpim":
		return groupMessage
	}
	if e.ChannelType == "" && strings.HasPrefix(string(e.Channel), "D") {
		return directMessage
	}
	return publicChannel
}

// talk tells whether a message of that subtype is something that somebody says. The others report what happened: joins,
// topics, pins.
func talk(subtype string) bool {
	switch subtype {
	case "", "file_share", "bot_message", "me_message",
		"thread_broadcast": // a reply that is shown in the channel too
		return true
	}
	return false
}

// noted is what one event says about a message.
type noted struct {
	message message
	change  adapters.Change
	kind    kind
}

// note reads a message event or a mention; false when it is about no message that is talk.
func note(e event) (noted, bool) {
	n := noted{message: e.message, change: adapters.Created, kind: kindOf(e)}
	switch {
	case e.Type == "app_mention":
		// The same message comes as a message event too; whichever is first counts. An edited message is mentioned
		// again, with the mark of the edit.
		if e.Edited != nil {
			n.change = adapters.Edited
		}
		return n, e.TS != ""
	case e.Type != "message":
		return noted{}, false
	case e.Subtype == "message_changed" && e.Message != nil:
		n.message, n.change = *e.Message, adapters.Edited
		if e.Message.Subtype == "tombstone" { // a deleted root that has replies
			n.change = adapters.Deleted
			if e.Previous != nil {
				n.message = *e.Previous
			}
		} else if !talk(e.Message.Subtype) {
			return noted{}, false
		}
	case e.Subtype == "message_deleted":
		n.change = adapters.Deleted
		if e.Previous != nil {
			n.message = *e.Previous
		}
		if e.DeletedTS != "" {
			n.message.TS = e.DeletedTS
		}
	case !talk(e.Subtype):
		return noted{}, false
	}
	n.message.Channel = e.Channel
	return n, n.message.TS != "" && n.message.Channel != ""
}

// reason tells why a message addresses mikan. Everything that can be a reason is in this list.
func reason(n noted, me identity, author store.AuthorKind) adapters.Reason {
	m := n.message
	switch {
	case author != store.AuthorHuman:
		return adapters.NotAddressed // ourselves and other bots never, not even by mention
	case n.change == adapters.Deleted:
		return adapters.NotAddressed
	case m.Subtype == "me_message":
		return adapters.NotAddressed // "/me waves" is told to everybody
	case n.kind == directMessage:
		return adapters.DirectMessage
	case m.Type == "app_mention", mentions(m.Text, ref(me.User)):
		return adapters.Mention
	}
	return adapters.Ambient // in threads too: as the channel's auto-reply mode says
}

// emptyMention is what a mention without a word asks.
const emptyMention = "(They mentioned you without saying anything else. It is about the recent conversation here: look at it and help.)"

// translateMessage makes a message of what was noted. Errors: unavailable when it cannot be told yet who speaks.
func (a *Adapter) translateMessage(ctx context.Context, me identity, n noted) (adapters.Message, error) {
	m := n.message
	author, standing, err := a.author(ctx, me, m)
	if err != nil {
		return adapters.Message{}, err
	}
	key, err := session.SlackKey(session.SlackPlace{Channel: string(m.Channel), TS: m.TS, ThreadTS: m.ThreadTS})
	if err != nil {
		return adapters.Message{}, fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	calls := names{ctx: ctx, team: me.Team, a: a}
	out := adapters.Message{
		Address: office.Address{Platform: office.Slack, ConversationID: string(m.Channel)}, Installation: me.Team,
		Audience: store.Shared, SessionKey: string(key), ID: m.TS, ReplyTo: threadOf(m), ThreadID: threadOf(m),
		Author: author, Standing: standing, SentAt: timeOf(m.TS), Change: n.change,
		Addressed: reason(n, me, author.Kind), Attachments: attachmentsOf(m.Files),
		Groups: groupsOf(me, m),
	}
	if n.kind == directMessage {
		out.Audience = store.Private
	}
	out.OfficeName, _ = a.channels.name(string(m.Channel))
	if author.Kind == store.AuthorHuman {
		out.Text = humanText(m, ref(me.User), calls)
	} else {
		out.Text = flatten(m, ref(me.User), calls)
	}
	if out.Text == "" && len(out.Attachments) == 0 && out.Addressed == adapters.Mention {
		out.Text = emptyMention
	}
	out.Reply = adapters.ReplyOf(a.answerAt(me, m))
	return out, nil
}

// threadOf is the root of the thread that a message stands in; a root stands in none.
func threadOf(m message) string {
	if m.ThreadTS == m.TS {
		return ""
	}
	return m.ThreadTS
}

// answerAt tells where a message is answered: in its thread, else as slack.reply_mode says.
func (a *Adapter) answerAt(me identity, m message) terms {
	t := terms{Team: me.Team, Channel: string(m.Channel), Thread: threadOf(m), User: string(m.User), UserTeam: teamOf(me, m)}
	if t.Thread == "" && a.replyMode == config.ReplyInThread {
		t.Thread = m.TS
	}
	return t
}

// teamOf is the workspace that an author belongs to. Only events of shared channels say so.
func teamOf(me identity, m message) string {
	for _, team := range []string{m.UserTeam, m.SourceTeam} {
		if team != "" {
			return team
		}
	}
	return me.Team
}

func groupsOf(me identity, m message) []adapters.Group {
	return []adapters.Group{
		{Kind: store.PrincipalWorkspace, ID: teamOf(me, m)},
		{Kind: store.PrincipalChat, ID: string(m.Channel)},
	}
}

// humanText is what somebody typed, with the messages that they shared along with it. Previews of links are left out:
// they come later, as edits.
func humanText(m message, self ref, calls namer) string {
	text := readable(m.Text, self, calls)
	f := flattener{self: self, names: calls, add: func(line string) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(text, line) {
			text = strings.TrimSpace(text + "\n> " + strings.ReplaceAll(line, "\n", "\n> "))
		}
	}}
	f.attachments(sharedOnly(m.Attachments))
	return text
}

// author tells who speaks, and what they may do by default.
func (a *Adapter) author(ctx context.Context, me identity, m message) (adapters.Author, adapters.Standing, error) {
	user := string(m.User)
	if user == me.User || user == "" && m.BotID != "" && m.BotID == me.Bot {
		return adapters.Author{ID: me.User, Name: me.Name, Kind: store.AuthorMikan}, adapters.Member, nil
	}
	if user == "" || user == slackbot || m.Subtype == "bot_message" {
		return adapters.Author{ID: firstOf(m.BotID, user, "unknown"), Name: botName(m), Kind: store.AuthorBot}, adapters.Stranger, nil
	}
	p, known := a.people.person(ctx, me.Team, user)
	if m.BotID != "" && !known {
		// Apps speak as a person with that person's token, and as themselves with their own. Which it is, only the user
		// tells, and the chat log must know from the beginning. This is the one call that comes before a message is
		// committed, once for each new app; a failure leaves the event with Slack, which sends it again.
		var err error
		p, err = a.lookUp(ctx, me.Team, user)
		switch {
		case fault.CodeOf(err) == fault.NotFound:
			p = store.Person{ID: user, Bot: true}
		case err != nil:
			return adapters.Author{}, "", fault.Wrap(fault.Unavailable, err, "it is not known yet who speaks")
		}
		known = true
	}
	if known && p.Bot {
		return adapters.Author{ID: user, Name: firstOf(p.Name, botName(m)), Kind: store.AuthorBot}, adapters.Stranger, nil
	}
	who := adapters.Author{ID: user, Name: firstOf(p.Name, user), Kind: store.AuthorHuman}
	switch {
	case known:
		return who, standingOf(p), nil
	case teamOf(me, m) != me.Team && !strings.HasPrefix(teamOf(me, m), "E"):
		return who, adapters.Stranger, nil // from another workspace, in a shared channel
	}
	return who, adapters.Unknown, nil
}

func botName(m message) string {
	if m.BotProfile != nil && m.BotProfile.Name != "" {
		return m.BotProfile.Name
	}
	return firstOf(m.Username, m.BotID, "bot")
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}
