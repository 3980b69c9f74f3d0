package discord

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// What a connection misses is read from the history of each channel, from where mikan stopped reading. A session that is
// resumed has missed nothing; one that begins anew has missed everything since the last one. Direct conversations cannot
// be listed by a bot: those that mikan knows are read.

const (
	// oldest is how far back a gap is read: older talk is in no session's window.
	oldest = 14 * 24 * time.Hour
	// margin is read twice at a channel that has no cursor of its own: events of different channels have no order.
	margin = time.Minute
	// edited is how much of a channel is read twice: history tells of an edit, which may newly mention mikan, only at its
	// message, which was read already.
	edited = 5 * time.Minute
	// abreast is how many channels are read at once.
	abreast = 4
	// guildsWithin is how long a session waits for the guilds that it was promised.
	guildsWithin = 5 * time.Second
	// again is the pause before a channel that could not be read is tried once more.
	again = 5 * time.Second
	// noteEvery is how often the installation's cursor is written.
	noteEvery = 5 * time.Second
)

// gaps are the channels whose history has to be read before live messages count.
type gaps struct {
	mu       sync.Mutex
	all      bool // a session has begun: no channel was looked at yet
	channels map[string]bool
	left     map[string]string    // by channel, the first message that was left while no channel was looked at
	kept     map[string][]message // by channel, what was left to the backfill, for what the history does not show
	heard    map[string]bool      // places of which something is recorded
	noted    time.Time
	slots    chan struct{}
}

func newGaps() *gaps {
	return &gaps{channels: map[string]bool{}, left: map[string]string{}, kept: map[string][]message{}, heard: map[string]bool{}, slots: make(chan struct{}, abreast)}
}

func (g *gaps) met(channelID string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heard[channelID]
}

func (g *gaps) meet(channelID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heard[channelID] = true
}

func (g *gaps) open(channelID string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.channels[channelID]
}

func (g *gaps) set(channelID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.channels[channelID] = true
}

// leave tells whether a new message is to be left to the backfill of its channel. While it is not known yet which
// channels have a gap, every channel with something new is one of them.
func (g *gaps) leave(m message) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, marked := g.left[m.ChannelID]; g.all && !marked {
		g.left[m.ChannelID] = m.ID
	}
	leave := g.all || g.channels[m.ChannelID]
	if leave && len(g.kept[m.ChannelID]) < mostKept {
		g.kept[m.ChannelID] = append(g.kept[m.ChannelID], m)
	}
	return leave
}

// mostKept bounds what is kept of one channel's gap; the history has the rest.
const mostKept = 500

// change follows an edit or a deletion of what is kept.
func (g *gaps) change(m message, change adapters.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := func(k message) bool { return k.ID == m.ID }
	i := slices.IndexFunc(g.kept[m.ChannelID], is)
	switch {
	case i < 0:
	case change == adapters.Deleted:
		g.kept[m.ChannelID] = slices.DeleteFunc(g.kept[m.ChannelID], is)
	default:
		g.kept[m.ChannelID][i].Content = m.Content
	}
}

// after are those kept of a channel that are newer than a message.
func (g *gaps) after(channelID, from string) []message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.kept[channelID]), func(m message) bool { return !newer(m.ID, from) })
}

// look ends the time in which it is not known which channels have a gap. Those found have one, and those in which
// something was left: of a channel that mikan has read nothing of, what was left is where reading begins.
func (g *gaps) look(found map[string]string) map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, first := range g.left {
		if _, ok := found[id]; !ok {
			found[id] = previous(first)
		}
	}
	g.all, g.left = false, map[string]string{}
	for id := range found {
		g.channels[id] = true
	}
	return found
}

func (g *gaps) closed(channelID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.channels, channelID)
	delete(g.kept, channelID)
}

// none tells whether everything up to now was taken in.
func (g *gaps) none() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.all && len(g.channels) == 0
}

func (g *gaps) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = true
}

// due tells whether the installation's cursor is to be written.
func (g *gaps) due() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.noted) < noteEvery {
		return false
	}
	g.noted = time.Now()
	return true
}

// begin is called when a session begins: whatever was said since the last one is read.
func (c *connection) begin(ctx context.Context, promised []guild, application string) {
	c.ready.Store(true)
	c.offering.Do(func() { go c.register(ctx, application) })
	c.places.age()
	c.gaps.begin()
	ids := make([]string, len(promised))
	for i, g := range promised {
		ids[i] = g.ID
	}
	c.guilds.expect(ids)
	c.gateway.Ready(nil)
	go c.catchUp(ctx, c.guilds.done(), time.Now())
}

// catchUp puts the reading of every channel with news at the front of its lane.
func (c *connection) catchUp(ctx context.Context, complete <-chan struct{}, began time.Time) {
	var known map[string]string
	err := c.untilDone(ctx, func() (err error) {
		known, err = c.services.Store.Cursors(ctx, string(office.Discord), c.self)
		return err
	})
	if err != nil {
		return
	}
	if _, started := known[""]; !started {
		c.note(ctx, idAt(began)) // from here on, everything is read
	}
	select {
	case <-complete:
	case <-time.After(guildsWithin):
	case <-ctx.Done():
		return
	}
	for id, from := range c.gaps.look(c.withNews(known, began)) {
		c.lanes.put(ctx, id, func(ctx context.Context) { c.backfill(ctx, id, from) })
	}
}

// withNews are the channels in which something may have been said since, with where reading them stopped.
func (c *connection) withNews(known map[string]string, began time.Time) map[string]string {
	floor := idAt(began.Add(-oldest))
	from := map[string]string{}
	for id, position := range known {
		if id != "" {
			from[id] = position
		}
	}
	if everywhere, started := known[""]; started {
		for _, p := range c.places.all() {
			if _, own := known[p.ID]; !own && p.holdsMessages() {
				from[p.ID] = idAt(timeOf(everywhere).Add(-margin))
			}
		}
	}
	lately := idAt(began.Add(-edited))
	for id, position := range from {
		if p, ok := c.places.known(id); ok && p.LastMessage != "" && !newer(p.LastMessage, position) && !newer(p.LastMessage, lately) {
			delete(from, id) // nothing was said there
			continue
		}
		if from[id] = idAt(timeOf(position).Add(-edited)); newer(floor, from[id]) {
			from[id] = floor
		}
	}
	return from
}

// untilDone repeats until it works or ctx ends.
func (c *connection) untilDone(ctx context.Context, do func() error) error {
	for pause := time.Second; ; pause = min(2*pause, slowest) {
		err := do()
		if err == nil || !sleep(ctx, pause) {
			return err
		}
	}
}

// mind remembers that a channel has a gap, and reads it when what is wrong may have passed.
func (c *connection) mind(ctx context.Context, channelID string) {
	c.gaps.set(channelID)
	time.AfterFunc(again, func() {
		if ctx.Err() != nil {
			return
		}
		c.lanes.put(ctx, channelID, func(ctx context.Context) {
			from, err := c.cursor(ctx, channelID)
			if err != nil {
				c.mind(ctx, channelID)
				return
			}
			c.backfill(ctx, channelID, from)
		})
	})
}

// cursor is where reading a channel stopped: at its own cursor, or at the installation's.
func (c *connection) cursor(ctx context.Context, channelID string) (string, error) {
	stream := store.Stream{Platform: string(office.Discord), Installation: c.self, Scope: channelID}
	position, known, err := c.services.Store.Cursor(ctx, stream)
	if err != nil || known {
		return position, err
	}
	stream.Scope = ""
	position, known, err = c.services.Store.Cursor(ctx, stream)
	if !known {
		return idAt(time.Now().Add(-margin)), err
	}
	return idAt(timeOf(position).Add(-margin)), err
}

// backfill reads a channel's history to its end, and closes its gap. It runs in the channel's lane, so that live messages
// come after it.
func (c *connection) backfill(ctx context.Context, channelID, from string) {
	select {
	case c.gaps.slots <- struct{}{}:
		defer func() { <-c.gaps.slots }()
	case <-ctx.Done():
		return
	}
	for {
		var page []message
		err := c.meet(ctx, channelID, from)
		if err == nil {
			page, err = c.history(ctx, channelID, from)
		}
		if err == nil {
			from, err = c.takePage(ctx, channelID, page, from)
		}
		switch code := fault.CodeOf(err); {
		case ctx.Err() != nil:
			return
		case code == fault.NotFound, code == fault.Forbidden, code == fault.Invalid:
			c.close(ctx, channelID, from) // the bot may not read it, now or any more
			return
		case err != nil:
			c.log.Warn("a channel's history could not be read", "code", code)
			c.mind(ctx, channelID)
			return
		case len(page) < pageSize:
			c.close(ctx, channelID, from)
			return
		}
	}
}

// close ends a channel's gap, which was read up to a message. What came in live since and the history does not show, or
// not yet, is taken in as it came.
func (c *connection) close(ctx context.Context, channelID, from string) {
	for _, m := range c.gaps.after(channelID, from) {
		err := c.receive(ctx, m, adapters.Created, adapters.ForAnswer)
		if err == nil {
			err = c.keepCursor(ctx, channelID, m.ID)
		}
		if err != nil {
			c.log.Warn("a message waits for another reading of its channel", "code", fault.CodeOf(err))
			c.mind(ctx, channelID)
			return
		}
	}
	c.gaps.closed(channelID)
}

// takePage takes in a page of history, oldest first, and tells how far it came.
func (c *connection) takePage(ctx context.Context, channelID string, page []message, from string) (string, error) {
	for _, m := range page {
		if err := c.complete(ctx, &m, adapters.ForAnswer); err != nil {
			return from, err
		}
		if err := c.receive(ctx, m, adapters.Created, adapters.ForAnswer); err != nil {
			return from, err
		}
		if m.EditedTimestamp != nil { // the first version may be known already
			if err := c.receive(ctx, m, adapters.Edited, adapters.ForAnswer); err != nil {
				return from, err
			}
		}
		from = m.ID
		if err := c.keepCursor(ctx, channelID, from); err != nil {
			return from, err
		}
	}
	return from, nil
}

// contextPages is how much of its past is read when mikan first hears something in a channel: 200 messages.
const contextPages = 2

// meet reads what was said in a place before mikan heard anything there: whoever calls it into a thread expects it to
// know the thread. None of it is answered.
func (c *connection) meet(ctx context.Context, channelID, before string) error {
	if c.gaps.met(channelID) {
		return nil
	}
	_, known, err := c.services.Store.Cursor(ctx, store.Stream{Platform: string(office.Discord), Installation: c.self, Scope: channelID})
	if err != nil {
		return err
	}
	if p, ok := c.places.known(channelID); known || !ok || p.isPrivate() {
		if !known {
			// No list that Discord gives has a direct conversation: before anything else is done about the first message in
			// one, it is noted where its reading begins.
			if err := c.keepCursor(ctx, channelID, previous(before)); err != nil {
				return err
			}
		}
		c.gaps.meet(channelID)
		return nil
	}
	var past []message
	for range contextPages {
		page, err := c.past(ctx, channelID, before)
		switch fault.CodeOf(err) {
		case "":
		case fault.NotFound, fault.Forbidden, fault.Invalid:
			c.gaps.meet(channelID) // it has no history for the bot
			return nil
		default:
			return err
		}
		past = append(page, past...)
		if len(page) < pageSize {
			break
		}
		before = page[0].ID
	}
	for _, m := range past {
		if timeOf(m.ID).Before(time.Now().Add(-oldest)) {
			continue
		}
		if err := c.complete(ctx, &m, adapters.ForContext); err != nil {
			return err
		}
		if err := c.receive(ctx, m, adapters.Created, adapters.ForContext); err != nil {
			return err
		}
	}
	c.gaps.meet(channelID)
	return nil
}

// complete adds what history does not tell: the guild, and the roles of somebody who addresses mikan.
func (c *connection) complete(ctx context.Context, m *message, purpose adapters.Purpose) error {
	p, ok := c.places.known(m.ChannelID)
	if !ok {
		var err error
		if p, err = c.places.find(ctx, m.ChannelID); err != nil {
			return err
		}
	}
	m.GuildID = p.Guild
	if purpose == adapters.ForContext || p.isPrivate() || m.Author == nil || m.Author.Bot || m.WebhookID != "" || !saidByPeople(m.Type) {
		return nil
	}
	who, err := c.memberOf(ctx, p.Guild, m.Author.ID)
	if err == nil && who != nil {
		m.Member = who
	}
	return err
}

// advance records that a channel was read up to a message, and from time to time that everything was.
func (c *connection) advance(ctx context.Context, channelID, messageID string) {
	if c.gaps.open(channelID) {
		return
	}
	if err := c.keepCursor(ctx, channelID, messageID); err != nil {
		c.mind(ctx, channelID)
		return
	}
	if c.gaps.none() && c.lanes.outstanding() <= 1 && c.gaps.due() {
		c.note(ctx, messageID)
	}
}

func (c *connection) keepCursor(ctx context.Context, channelID, position string) error {
	return c.services.Store.SetCursor(ctx, store.Stream{Platform: string(office.Discord), Installation: c.self, Scope: channelID}, position)
}

func (c *connection) note(ctx context.Context, position string) {
	if err := c.keepCursor(ctx, "", position); err != nil && ctx.Err() == nil {
		c.log.Warn("it could not be recorded how far Discord was read", "code", fault.CodeOf(err))
	}
}
