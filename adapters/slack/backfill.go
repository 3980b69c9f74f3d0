package slack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

const (
	// overlap is how much before the last position is read again: what one gateway had not committed yet when another
	// wrote how far it was.
	overlap = 5 * time.Minute
	// joinPast is how many messages of a channel are logged when mikan is added to it.
	joinPast = 200
	// threadsPer is how many threads of a channel are looked into, and threadAge how long ago something was said in them.
	threadsPer = 50
	threadAge  = 14 * 24 * time.Hour
	// pageSize is how many messages are asked for at once, and mostPages how many pages of a channel are read at most.
	pageSize  = 200
	mostPages = 50
)

// errFilled ends a lease whose work is done.
var errFilled = errors.New("filled")

// fillGaps looks for what was missed, whenever something may have been. One process does it at a time: the others find
// little left to read.
func (in *inbound) fillGaps(ctx context.Context, me identity) {
	for {
		select {
		case <-in.gaps:
		case <-ctx.Done():
			return
		}
		lease := rate.Lease{Store: in.Store, Name: "slack/" + me.Team + "/backfill", Holder: in.Process, Lasts: 20 * time.Second}
		err := lease.Hold(ctx, func(ctx context.Context) error {
			for wait := time.Second; ; wait = min(2*wait, time.Minute) {
				err := in.backfill(ctx, me)
				if err == nil {
					return errFilled
				}
				if ctx.Err() != nil {
					return nil
				}
				in.Log.Warn("the backfill is repeated", "code", fault.CodeOf(err), "error", err)
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return nil
				}
			}
		})
		if errors.Is(err, errFilled) && len(in.gaps) == 0 {
			in.read.release()
		}
	}
}

// conversation is one that mikan is a member of.
type conversation struct {
	id   string
	kind kind
	// since is from where it is read; what is older than answers is for context only.
	since, answers string
}

// backfill reads every conversation from where it was read last. A conversation without a position is one that mikan
// was added to, or that somebody began, while no gateway was there to see it: what is younger than the last sign of life
// is answered, what is older is context.
func (in *inbound) backfill(ctx context.Context, me identity) error {
	known, err := in.Store.Cursors(ctx, string(office.Slack), me.Team)
	if err != nil {
		return err
	}
	alive, lived := known[""]
	if !lived {
		alive = stampOf(in.started) // the first start: nobody waits for an answer
	}
	alive = stampOf(timeOf(alive).Add(-overlap)) // by our clock, and Slack's may differ
	all, err := in.memberships(ctx, me)
	switch fault.CodeOf(err) {
	case "":
	case fault.Invalid, fault.NotFound, fault.Forbidden:
		in.Log.Warn("Slack does not list the conversations; those that are known are read", "code", fault.CodeOf(err), "error", err)
		all = knownOf(known)
	default:
		return err
	}
	for i, c := range all {
		all[i].answers = alive
		if position, read := known[c.id]; read {
			all[i].since = stampOf(timeOf(position).Add(-overlap))
			all[i].answers = all[i].since
		}
	}
	slices.SortStableFunc(all, func(a, b conversation) int { return strings.Compare(known[b.id], known[a.id]) })
	for _, c := range all {
		if err := in.fill(ctx, me, c); err != nil {
			switch fault.CodeOf(err) {
			case fault.Forbidden, fault.NotFound, fault.Invalid:
				in.Log.Warn("a conversation cannot be read", "channel", c.id, "error", err)
				continue // left or archived since
			}
			return err
		}
	}
	return nil
}

// knownOf are the conversations that have a position.
func knownOf(positions map[string]string) []conversation {
	var all []conversation
	for id := range positions {
		if id != "" {
			all = append(all, conversation{id: id, kind: kindOf(event{message: message{Channel: ref(id)}})})
		}
	}
	return all
}

// memberships lists the conversations that mikan is a member of, and learns what they are called.
func (in *inbound) memberships(ctx context.Context, me identity) ([]conversation, error) {
	var all []conversation
	cursor := ""
	for {
		var page []sdk.Channel
		err := in.patiently(ctx, me.Team, memberOf, func(ctx context.Context) error {
			var err error
			page, cursor, err = in.api.GetConversationsForUserContext(ctx, &sdk.GetConversationsForUserParameters{
				Types: []string{"public_channel", "private_channel", "mpim", "im"}, Limit: pageSize, ExcludeArchived: true, Cursor: cursor,
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			one := conversation{id: c.ID, kind: kindOf(event{message: message{Channel: ref(c.ID)}})}
			switch {
			case c.IsIM:
				one.kind = directMessage
			case c.IsMpIM:
				one.kind = groupMessage
			}
			in.channels.keep(c.ID, c.Name)
			all = append(all, one)
		}
		if cursor == "" {
			return all, nil
		}
	}
}

// fill reads one conversation and takes in what it finds, oldest first.
func (in *inbound) fill(ctx context.Context, me identity, c conversation) error {
	most := mostPages
	if c.since == "" {
		most = 1 // the recent past only
	}
	found, err := in.topLevel(ctx, me, c.id, c.since, "", most)
	if err != nil {
		return err
	}
	roots := map[string]bool{}
	for _, m := range found {
		if m.ReplyCount > 0 && (c.since == "" || later(m.LatestReply, c.since)) {
			roots[m.TS] = true
		}
	}
	if c.since != "" {
		if err := in.activeRoots(ctx, c.id, roots); err != nil {
			return err
		}
	}
	for root := range roots {
		answers, err := in.inThread(ctx, me, c.id, root, c.since)
		if fault.CodeOf(err) == fault.NotFound {
			continue // deleted
		}
		if err != nil {
			return err
		}
		found = append(found, answers...)
	}
	slices.SortFunc(found, func(a, b message) int { return strings.Compare(a.TS, b.TS) })
	found = slices.CompactFunc(found, func(a, b message) bool { return a.TS == b.TS })
	last := c.answers
	for _, m := range found {
		purpose := adapters.ForAnswer
		if later(c.answers, m.TS) {
			purpose = adapters.ForContext
		}
		if err := in.catchUp(ctx, me, m, c.kind, purpose); err != nil {
			return err
		}
		if later(m.TS, last) {
			last = m.TS
		}
	}
	in.read.fill(c.id, last)
	return nil
}

// activeRoots adds the threads that mikan knows to be alive. Slack lists no replies but those of a thread that is named:
// in older threads that mikan does not know, what was missed cannot be found.
func (in *inbound) activeRoots(ctx context.Context, channel string, roots map[string]bool) error {
	key, err := office.Address{Platform: office.Slack, ConversationID: channel}.Key()
	if err != nil {
		return nil
	}
	active, err := in.Store.ActiveThreads(ctx, string(key), time.Now().Add(-threadAge), threadsPer)
	for _, root := range active {
		roots[root] = true
	}
	return err
}

// topLevel reads a channel between two moments, newest page first, as Slack gives it.
func (in *inbound) topLevel(ctx context.Context, me identity, channel, since, until string, most int) ([]message, error) {
	var all []message
	cursor := ""
	for range most {
		var page *sdk.GetConversationHistoryResponse
		err := in.patiently(ctx, me.Team, history, func(ctx context.Context) error {
			var err error
			page, err = in.api.GetConversationHistoryContext(ctx, &sdk.GetConversationHistoryParameters{
				ChannelID: channel, Oldest: since, Latest: until, Cursor: cursor, Limit: pageSize,
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, ownForm(page.Messages, channel)...)
		if cursor = page.ResponseMetaData.NextCursor; cursor == "" || !page.HasMore {
			break
		}
	}
	return all, nil
}

func (in *inbound) inThread(ctx context.Context, me identity, channel, root, since string) ([]message, error) {
	var all []message
	cursor := ""
	for range mostPages {
		var page []sdk.Message
		err := in.patiently(ctx, me.Team, replies, func(ctx context.Context) error {
			var err error
			page, _, cursor, err = in.api.GetConversationRepliesContext(ctx, &sdk.GetConversationRepliesParameters{
				ChannelID: channel, Timestamp: root, Oldest: since, Cursor: cursor, Limit: pageSize,
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, m := range ownForm(page, channel) {
			if since == "" || later(m.TS, since) { // the root always comes first
				all = append(all, m)
			}
		}
		if cursor == "" {
			break
		}
	}
	return all, nil
}

// ownForm reads the SDK's messages as those of events are read.
func ownForm(page []sdk.Message, channel string) []message {
	all := make([]message, 0, len(page))
	for _, m := range page {
		raw, err := json.Marshal(m)
		var own message
		if err != nil || json.Unmarshal(raw, &own) != nil {
			continue
		}
		own.Channel, own.Type = ref(channel), "message"
		all = append(all, own)
	}
	return all
}

// catchUp takes in one message that may have been missed. One that is known may have been edited meanwhile.
func (in *inbound) catchUp(ctx context.Context, me identity, m message, k kind, purpose adapters.Purpose) error {
	if !talk(m.Subtype) {
		return nil
	}
	out, err := in.translateMessage(ctx, me, noted{message: m, change: adapters.Created, kind: k})
	if fault.CodeOf(err) == fault.Invalid {
		return nil
	}
	if err != nil {
		return err
	}
	out.Purpose = purpose
	receipt, err := in.gateway.Receive(ctx, out)
	if err == nil && receipt.Decision == adapters.Repeated && m.Edited != nil && out.Author.Kind == store.AuthorHuman {
		out.Change = adapters.Edited
		_, err = in.gateway.Receive(ctx, out)
	}
	switch fault.CodeOf(err) {
	case "", fault.Invalid, fault.Conflict:
		in.title(out)
		return nil
	}
	return err
}

// joined logs the recent past of a channel that mikan was added to. What was said since is answered as it comes in.
func (in *inbound) joined(ctx context.Context, me identity, channel, at string) error {
	if err := in.nameChannel(ctx, me.Team, channel); err != nil {
		return err
	}
	past, err := in.topLevel(ctx, me, channel, "", at, (joinPast+pageSize-1)/pageSize)
	if err != nil {
		return err
	}
	slices.Reverse(past)
	for _, m := range past {
		if at != "" && !later(at, m.TS) {
			continue
		}
		if err := in.catchUp(ctx, me, m, publicChannel, adapters.ForContext); err != nil {
			return err
		}
	}
	in.read.saw(channel, at)
	return nil
}

// nameChannel finds out what a conversation is called.
func (in *inbound) nameChannel(ctx context.Context, team, id string) error {
	var found *sdk.Channel
	err := in.limited(ctx, team, infoOf, "", rate.Final, func(ctx context.Context) error {
		var err error
		found, err = in.api.GetConversationInfoContext(ctx, &sdk.GetConversationInfoInput{ChannelID: id})
		return err
	})
	if err == nil {
		in.channels.keep(id, found.Name)
	}
	return err
}
