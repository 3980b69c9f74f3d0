package discord

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// take is called with every event, in order. What takes time goes to the lane of its channel.
func (c *connection) take(ctx context.Context, e *discordgo.Event) {
	switch e.Type {
	case "READY":
		var ready struct {
			Guilds      []guild `json:"guilds"`
			Application struct {
				ID string `json:"id"`
			} `json:"application"`
		}
		c.read(e, &ready)
		c.begin(ctx, ready.Guilds, ready.Application.ID)
	case "RESUMED":
		c.ready.Store(true)
		c.gateway.Ready(nil)
	case "GUILD_CREATE":
		var g guild
		if c.read(e, &g) && !g.Unavailable {
			c.places.keepGuild(g, c.self)
			c.members.meet(g.ID, g.Members...)
			c.guilds.came(g.ID)
		}
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		var ch channel
		if c.read(e, &ch) {
			c.places.keep(ch.GuildID, ch)
		}
	case "CHANNEL_DELETE", "THREAD_DELETE":
		var ch channel
		if c.read(e, &ch) {
			c.places.forget(ch.ID)
		}
	case "THREAD_LIST_SYNC":
		var list struct {
			GuildID string    `json:"guild_id"`
			Threads []channel `json:"threads"`
		}
		c.read(e, &list)
		for _, t := range list.Threads {
			c.places.keep(list.GuildID, t)
		}
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		c.takeMessage(ctx, e)
	case "INTERACTION_CREATE":
		var i interaction
		if c.read(e, &i) && i.Type == interactionCommand {
			c.lanes.put(ctx, "interaction/"+i.ID, func(ctx context.Context) { c.receiveCommand(ctx, i) })
		}
	}
}

// read decodes an event; one that cannot be read is logged without its content.
func (c *connection) read(e *discordgo.Event, into any) bool {
	if err := json.Unmarshal(e.RawData, into); err != nil {
		c.log.Error("an event of Discord's cannot be read", "event", e.Type)
		return false
	}
	return true
}

func (c *connection) takeMessage(ctx context.Context, e *discordgo.Event) {
	var m struct {
		message
		IDs []string `json:"ids"`
	}
	if !c.read(e, &m) {
		return
	}
	change := adapters.Created
	switch e.Type {
	case "MESSAGE_UPDATE":
		change = adapters.Edited
		if m.Content == nil || m.Author == nil {
			return // a preview was added: nobody said anything
		}
	case "MESSAGE_DELETE":
		m.IDs, change = []string{m.ID}, adapters.Deleted
	case "MESSAGE_DELETE_BULK":
		change = adapters.Deleted
	}
	if change == adapters.Deleted {
		for _, id := range m.IDs {
			gone := message{ID: id, ChannelID: m.ChannelID, GuildID: m.GuildID}
			c.lanes.put(ctx, m.ChannelID, func(ctx context.Context) { c.live(ctx, gone, change) })
		}
		return
	}
	if m.Author != nil && m.WebhookID == "" {
		who := member{User: m.Author}
		if m.Member != nil {
			who.Roles = m.Member.Roles
		}
		c.members.meet(m.GuildID, who)
	}
	c.lanes.put(ctx, m.ChannelID, func(ctx context.Context) { c.live(ctx, m.message, change) })
}

// live takes in what has just been said. While a channel has a gap, new messages are left to its backfill, which finds
// them in their order.
func (c *connection) live(ctx context.Context, m message, change adapters.Change) {
	if change == adapters.Created {
		c.meetDirect(ctx, m)
		if c.gaps.leave(m) {
			return
		}
	} else {
		c.gaps.change(m, change)
	}
	err := c.persist(ctx, func() error {
		if change == adapters.Created {
			if err := c.meet(ctx, m.ChannelID, m.ID); err != nil {
				return err
			}
		}
		return c.receive(ctx, m, change, adapters.ForAnswer)
	})
	switch {
	case ctx.Err() != nil:
	case err != nil && change == adapters.Deleted:
		c.log.Error("a deletion could not be recorded", "code", fault.CodeOf(err)) // no history tells it again
	case err != nil:
		c.log.Error("a message waits for the backfill of its channel", "code", fault.CodeOf(err))
		c.mind(ctx, m.ChannelID)
	case change == adapters.Created:
		c.advance(ctx, m.ChannelID, m.ID)
	}
}

// meetDirect notes where a direct conversation begins before a message in it may be left for later: no list that Discord
// gives has the conversation, and this process may end.
func (c *connection) meetDirect(ctx context.Context, m message) {
	if m.GuildID != "" {
		return
	}
	err := c.persist(ctx, func() error { return c.meet(ctx, m.ChannelID, m.ID) })
	if err != nil && ctx.Err() == nil {
		c.log.Error("it could not be noted where a direct conversation begins", "code", fault.CodeOf(err))
	}
}

// patience is how long the same event is tried again while the database or Discord is away.
const patience = 15 * time.Second

func (c *connection) persist(ctx context.Context, do func() error) error {
	until := time.Now().Add(patience)
	for pause := 250 * time.Millisecond; ; pause *= 2 {
		err := do()
		if err == nil || !fault.Retryable(fault.CodeOf(err)) || time.Now().Add(pause).After(until) || !sleep(ctx, pause) {
			return err
		}
	}
}

// receive hands one message to intake. It returns nil also for what is refused, since it would be refused again, and for
// what nobody can place.
func (c *connection) receive(ctx context.Context, m message, change adapters.Change, purpose adapters.Purpose) error {
	if !saidByPeople(m.Type) || privateEcho(m, c.self) {
		return nil
	}
	out, err := c.translate(ctx, m, c.self, change)
	switch fault.CodeOf(err) {
	case "":
	case fault.NotFound, fault.Forbidden, fault.Invalid:
		c.log.Warn("a message's channel is not known to the bot", "code", fault.CodeOf(err))
		return nil
	default:
		return err
	}
	out.Purpose = purpose
	if out.Author.Kind == store.AuthorHuman {
		c.people.keep(ctx, c.self, m)
	}
	return settled(c.gateway.Receive(ctx, out))
}

func settled(_ adapters.Receipt, err error) error {
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.Conflict:
		return nil
	}
	return err
}

// receiveCommand takes in a slash command and acknowledges it once it is committed. Discord does not send it again: when
// the database is away, its user reads that mikan did not respond.
func (c *connection) receiveCommand(ctx context.Context, i interaction) {
	within, stop := context.WithDeadline(ctx, timeOf(i.ID).Add(tokenLives))
	defer stop()
	out, err := c.command(within, i, c.self)
	if err != nil {
		c.log.Warn("a command cannot be placed", "code", fault.CodeOf(err))
		return
	}
	c.people.keep(within, c.self, message{Author: i.user()})
	var receipt adapters.Receipt
	err = c.persist(within, func() error {
		receipt, err = c.gateway.Receive(within, out)
		return settled(receipt, err)
	})
	if err != nil {
		c.log.Error("a command could not be taken in", "code", fault.CodeOf(err))
		return
	}
	c.acknowledge(within, i, receipt)
}

// tokenLives is how long an interaction can be answered.
const tokenLives = 15 * time.Minute

func (i interaction) user() *user {
	if i.Member != nil && i.Member.User != nil {
		return i.Member.User
	}
	return i.User
}
