package discord

import (
	"context"
	"sync"

	"github.com/bwmarrin/discordgo"
)

// places remembers where channels and threads belong. It is filled by the gateway's events; what it does not know costs
// one call.
type places struct {
	ask func(ctx context.Context, id string) (channel, error)

	mu       sync.Mutex
	channels map[string]place
	guilds   map[string]guildFacts
}

// place is a channel, a thread or a direct conversation.
type place struct {
	ID, Guild, Parent, Name string
	Type                    discordgo.ChannelType
	// LastMessage is the id of the newest message when the connection began; empty: not known.
	LastMessage string
}

type guildFacts struct {
	name    string
	roles   map[string]string // names by id
	ownRole string            // the role that Discord made for the bot
}

func newPlaces(ask func(context.Context, string) (channel, error)) *places {
	return &places{ask: ask, channels: map[string]place{}, guilds: map[string]guildFacts{}}
}

// isThread tells whether the place's conversation is its parent.
func (p place) isThread() bool {
	switch p.Type {
	case discordgo.ChannelTypeGuildNewsThread, discordgo.ChannelTypeGuildPublicThread, discordgo.ChannelTypeGuildPrivateThread:
		return true
	}
	return false
}

// holdsMessages is false for forums, which hold threads, and for categories.
func (p place) holdsMessages() bool {
	switch p.Type {
	case discordgo.ChannelTypeGuildForum, discordgo.ChannelTypeGuildMedia, discordgo.ChannelTypeGuildCategory, discordgo.ChannelTypeGuildDirectory:
		return false
	}
	return true
}

func (p place) isPrivate() bool { return p.Guild == "" }

// conversation is the office's id: a thread's is its parent.
func (p place) conversation() string {
	if p.isThread() {
		return p.Parent
	}
	return p.ID
}

// lookUp asks Discord for a channel. Errors: not_found, forbidden, or worth another attempt.
func (a *Adapter) lookUp(ctx context.Context, id string) (channel, error) {
	var c channel
	err := a.api.do(ctx, call{what: "channel", method: "GET", path: "channels/" + id}, &c)
	return c, err
}

// find tells where a channel belongs.
func (p *places) find(ctx context.Context, id string) (place, error) {
	if known, ok := p.known(id); ok {
		return known, nil
	}
	c, err := p.ask(ctx, id)
	if err != nil {
		return place{}, err
	}
	c.LastMessage = "" // newer than the connection's beginning
	return p.keep(c.GuildID, c), nil
}

func (p *places) known(id string) (place, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.channels[id]
	return known, ok
}

func (p *places) keep(guildID string, c channel) place {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := place{ID: c.ID, Guild: guildID, Parent: c.ParentID, Name: c.Name, Type: c.Type, LastMessage: c.LastMessage}
	p.channels[c.ID] = kept
	return kept
}

// keepDirect records a direct conversation, which an event tells by having no guild.
func (p *places) keepDirect(id string) place {
	if known, ok := p.known(id); ok {
		return known
	}
	return p.keep("", channel{ID: id, Type: discordgo.ChannelTypeDM})
}

func (p *places) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.channels, id)
}

// keepGuild takes in a guild as the gateway describes it when a connection begins.
func (p *places) keepGuild(g guild, self string) {
	facts := guildFacts{name: g.Name, roles: map[string]string{}}
	for _, r := range g.Roles {
		facts.roles[r.ID] = r.Name
		if r.Tags.BotID == self {
			facts.ownRole = r.ID
		}
	}
	p.mu.Lock()
	p.guilds[g.ID] = facts
	p.mu.Unlock()
	for _, c := range append(g.Channels, g.Threads...) {
		if c.LastMessage == "" {
			c.LastMessage = "0" // it holds no message
		}
		p.keep(g.ID, c)
	}
}

func (p *places) guild(id string) guildFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guilds[id]
}

// all lists what is known of guilds: the places that a backfill looks at.
func (p *places) all() []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]place, 0, len(p.channels))
	for _, c := range p.channels {
		list = append(list, c)
	}
	return list
}

// age forgets what was the newest message: another connection begins.
func (p *places) age() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, c := range p.channels {
		c.LastMessage = ""
		p.channels[id] = c
	}
}
