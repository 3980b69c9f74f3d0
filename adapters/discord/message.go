package discord

import (
	"context"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// saidByPeople are the types of message that somebody wrote. The others are Discord's own: joins, pins, threads begun.
func saidByPeople(t discordgo.MessageType) bool {
	switch t {
	case discordgo.MessageTypeDefault, discordgo.MessageTypeReply, discordgo.MessageTypeChatInputCommand, discordgo.MessageTypeContextMenuCommand:
		return true
	}
	return false
}

// privateEcho recognises what mikan showed to one person alone: it is no part of any conversation's log.
func privateEcho(m message, self string) bool {
	return m.Author != nil && m.Author.ID == self && m.Flags&(flagSuppressEmbeds|flagEphemeral) != 0
}

// addressing is what decides whether a message is meant for mikan.
type addressing struct {
	direct    bool // in a direct conversation
	mentioned bool // the text mentions the bot or the bot's own role
	repliesTo bool // to a message of mikan's
	inThread  bool
	scoped    bool // a reply to somebody else
}

// reason is the flat list. That a thread has mikan in it, and that an office wants to be answered without a mention, are
// conditions that intake looks up.
func (a addressing) reason() adapters.Reason {
	switch {
	case a.direct:
		return adapters.DirectMessage
	case a.mentioned:
		return adapters.Mention
	case a.repliesTo:
		return adapters.Reply
	case a.inThread:
		return adapters.FollowUp
	case a.scoped:
		return adapters.NotAddressed
	}
	return adapters.Ambient
}

// translate makes a message of Discord's one of intake's. Only an unknown channel costs a call.
func (a *Adapter) translate(ctx context.Context, m message, self string, change adapters.Change) (adapters.Message, error) {
	p, err := a.placeOf(ctx, m)
	if err != nil {
		return adapters.Message{}, err
	}
	facts := a.places.guild(p.Guild)
	out := adapters.Message{
		Installation: self, ID: m.ID, SentAt: m.Timestamp, Change: change,
		Text: spoken(m, self, facts, a.places), Attachments: attachmentsOf(m),
	}
	if out.SentAt.IsZero() {
		out.SentAt = timeOf(m.ID)
	}
	seen := addressing{direct: p.isPrivate(), inThread: p.isThread(), mentioned: mentions(m, self, facts.ownRole)}
	if m.Reference != nil && m.Reference.Type == isReply && m.Reference.MessageID != "" {
		out.ReplyTo = m.Reference.MessageID
		seen.repliesTo = m.Referenced != nil && m.Referenced.Author != nil && m.Referenced.Author.ID == self
		seen.scoped = true
	}
	out.Addressed = seen.reason()
	if err := a.locate(&out, p, out.ReplyTo); err != nil {
		return out, err
	}
	out.Author = authorOf(m, self)
	out.Groups, out.Standing = groupsOf(p, m.Member)
	t := terms{Guild: p.Guild, Channel: p.ID, Message: m.ID}
	if p.isThread() {
		t.Thread = p.ID
	}
	out.Reply = adapters.ReplyOf(t)
	return out, nil
}

func (a *Adapter) placeOf(ctx context.Context, m message) (place, error) {
	known, ok := a.places.known(m.ChannelID)
	if ok || m.GuildID != "" {
		if ok {
			return known, nil
		}
		found, err := a.places.find(ctx, m.ChannelID)
		if fault.CodeOf(err) == fault.NotFound && !saidNo(err, codeUnknownChannel) {
			// There is no telling what it is, and something was just said there: that is a channel.
			return place{ID: m.ChannelID, Guild: m.GuildID, Type: discordgo.ChannelTypeGuildText}, nil
		}
		return found, err
	}
	return a.places.keepDirect(m.ChannelID), nil
}

// locate fills in the office and the session of a place.
func (a *Adapter) locate(out *adapters.Message, p place, repliedTo string) error {
	out.Address = office.Address{Platform: office.Discord, ConversationID: p.conversation()}
	out.Audience, out.OfficeName = store.Shared, p.Name
	at := session.DiscordPlace{Place: session.Shared, Channel: p.ID, RepliedTo: repliedTo}
	switch {
	case p.isPrivate():
		at.Place, out.Audience, out.OfficeName = session.Private, store.Private, ""
	case p.isThread():
		at.ThreadParent, out.ThreadID, out.OfficeName = p.Parent, p.ID, ""
		if parent, ok := a.places.known(p.Parent); ok {
			out.OfficeName = parent.Name
		}
	}
	key, err := session.DiscordKey(at)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	out.SessionKey = string(key)
	return nil
}

func authorOf(m message, self string) adapters.Author {
	if m.Author == nil {
		return adapters.Author{Kind: store.AuthorBot} // an update without its author starts nothing
	}
	author := adapters.Author{ID: m.Author.ID, Name: m.Author.name(), Kind: store.AuthorHuman}
	if m.Member != nil && m.Member.Nick != "" {
		author.Name = m.Member.Nick
	}
	switch {
	case m.Author.ID == self:
		author.Kind = store.AuthorMikan
	case m.Author.Bot || m.WebhookID != "":
		author.Kind = store.AuthorBot
	}
	return author
}

// groupsOf tells what access rules can name. Nobody is a member by default: guilds are listed. Of a direct message it is
// not known which guilds its author is in.
func groupsOf(p place, who *member) ([]adapters.Group, adapters.Standing) {
	if p.isPrivate() {
		return nil, adapters.Unknown
	}
	groups := []adapters.Group{{Kind: store.PrincipalGuild, ID: p.Guild}}
	if who != nil {
		for _, r := range who.Roles {
			groups = append(groups, adapters.Group{Kind: store.PrincipalRole, ID: r})
		}
	}
	return groups, adapters.Stranger
}

// mentions tells whether the text itself mentions the bot. The list of mentions does not: a reply adds its addressee.
func mentions(m message, self, ownRole string) bool {
	text := m.content()
	if ownRole != "" && slices.Contains(m.MentionRoles, ownRole) && strings.Contains(text, "<@&"+ownRole+">") {
		return true
	}
	return strings.Contains(text, "<@"+self+">") || strings.Contains(text, "<@!"+self+">")
}

// attachmentsOf names a message's files, and those of a message that it forwards. They are fetched by the message, since
// their addresses are signed for a day only.
func attachmentsOf(m message) []store.Attachment {
	files := m.Attachments
	for _, s := range m.Snapshots {
		files = append(files, s.Message.Attachments...)
	}
	var list []store.Attachment
	for _, f := range files {
		list = append(list, store.Attachment{
			Name: f.Filename, MediaType: f.ContentType, Size: f.Size, Source: m.ChannelID + "/" + m.ID + "/" + f.ID,
		})
	}
	return list
}
