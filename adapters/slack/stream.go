package slack

import (
	"context"
	"strings"
	"sync"
	"time"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/text"
)

// A stream is a message that Slack itself shows growing. It takes only more text at its end, so it serves while an
// answer does nothing but grow; whatever else happens (a tool's line changes, Slack closes the stream, another process
// goes on with the run) ends it, and the message is edited from then on. The final edit replaces all of it, so that
// streamed and other answers look alike.

// maxAppend is how much text one call may bring, in characters.
const maxAppend = 12_000

// streams are those that this process has open, by message id.
type streams struct {
	mu   sync.Mutex
	live map[string]live
}

type live struct {
	shown    string // all that was sent
	doubtful bool   // a call's outcome is unknown: what was sent may be shown twice
	since    time.Time
}

// forgetAfter is when a stream is certainly closed, whoever closed it.
const forgetAfter = time.Hour

func newStreams() *streams { return &streams{live: map[string]live{}} }

func (s *streams) open(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.live[id]
	return open
}

func (s *streams) find(id string) (live, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, open := s.live[id]
	return l, open
}

func (s *streams) doubt(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, open := s.live[id]; open {
		l.doubtful = true
		s.live[id] = l
	}
}

func (s *streams) show(id, shown string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.live[id]
	if !known {
		l.since = time.Now()
		for other, o := range s.live {
			if time.Since(o.since) > forgetAfter { // its run ended in another process
				delete(s.live, other)
			}
		}
	}
	l.shown = shown
	s.live[id] = l
}

func (s *streams) close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}

// streamable tells whether there is a thread and a reader: Slack streams nowhere else and for nobody else.
func streamable(to terms) bool { return to.Thread != "" && to.User != "" }

// cannotStream tells whether Slack, or its rate limit, refuses a stream before there is one: a plain message does as well.
func cannotStream(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.TooLarge, fault.NotFound: // not found is also what servers answer that have no streams
		return true
	case fault.RateLimited:
		return true
	case fault.Forbidden:
		return said(err, "method_not_supported_for_channel_type", "missing_scope")
	}
	return said(err, "user_not_found", "missing_recipient_team_id", "missing_recipient_user_id", "messaging_processing_failed")
}

func (a *Adapter) startStream(ctx context.Context, to terms, m adapters.Outgoing) (string, error) {
	shown := a.streamText(ctx, to, m)
	first := text.Head(shown, maxAppend)
	var id string
	err := a.limited(ctx, to.Team, startStream, "", rate.Progress, func(ctx context.Context) error {
		_, posted, err := a.api.StartStreamContext(ctx, to.Channel, threadOption(to), sdk.MsgOptionMarkdownText(first),
			sdk.MsgOptionRecipientTeamID(to.UserTeam), sdk.MsgOptionRecipientUserID(to.User))
		id = posted
		return err
	})
	if err != nil {
		return "", err
	}
	a.streams.show(id, first)
	return id, nil
}

// redraw shows a text that has grown: at the end of the stream if there is one and the text has only grown, else by an
// edit.
func (a *Adapter) redraw(ctx context.Context, to terms, id string, m adapters.Outgoing) error {
	stream, open := a.streams.find(id)
	if !open {
		return a.replace(ctx, to, id, m)
	}
	next := a.streamText(ctx, to, m)
	more, grown := strings.CutPrefix(next, stream.shown)
	if grown && !stream.doubtful {
		err := a.appendText(ctx, to, id, stream.shown, more)
		if fault.CodeOf(err) == fault.Unavailable {
			a.streams.doubt(id)
		}
		if !streamOver(err) {
			return err
		}
		a.streams.close(id)
		return a.update(ctx, to, id, m)
	}
	if strings.HasPrefix(stream.shown, next) && !stream.doubtful {
		return nil // the end is held back
	}
	if err := a.stopStream(ctx, to, id, m); err != nil {
		return err
	}
	return a.update(ctx, to, id, m)
}

func (a *Adapter) appendText(ctx context.Context, to terms, id, shown, more string) error {
	for more != "" {
		piece := text.Head(more, maxAppend)
		if piece == "" {
			piece = more // one grapheme of more than 12,000 bytes: let Slack say what it thinks
		}
		err := a.limited(ctx, to.Team, appendTo, "", rate.Progress, func(ctx context.Context) error {
			_, _, err := a.api.AppendStreamContext(ctx, to.Channel, id, sdk.MsgOptionMarkdownText(piece))
			return err
		})
		if err != nil {
			return err
		}
		shown, more = shown+piece, more[len(piece):]
		a.streams.show(id, shown)
	}
	return nil
}

// streamOver tells whether a stream takes no more: Slack closes them after some minutes, and people can.
func streamOver(err error) bool {
	return said(err, "message_not_in_streaming_state", "stopped_by_user", "message_not_owned_by_app", "streaming_state_conflict",
		"msg_too_long", "msg_blocks_too_long", "msg_blocks_too_many")
}

// stopStream closes a stream and gives the message its key. One that is closed already is no error.
func (a *Adapter) stopStream(ctx context.Context, to terms, id string, m adapters.Outgoing) error {
	err := a.limited(ctx, to.Team, stopStream, "", priorityOf(m), func(ctx context.Context) error {
		_, _, err := a.api.StopStreamContext(ctx, to.Channel, id, keyOption(m))
		return err
	})
	if err == nil || streamOver(err) {
		a.streams.close(id)
		return nil
	}
	return err
}

// streamText is as much of a text that grows as will stay as it is. Of its last line the rest is held back from where
// markup may have begun: "**bo" shows asterisks that "**bold**" does not.
func (a *Adapter) streamText(ctx context.Context, to terms, m adapters.Outgoing) string {
	shown := markdown.SlackText(a.whole(m), a.mentionOptions(ctx, to.Team))
	line := strings.LastIndexByte(shown, '\n') + 1
	markup := strings.IndexAny(shown[line:], "*_`~[]<>|\\&:#@=-")
	if markup < 0 || line+markup == 0 {
		return shown
	}
	return shown[:line+markup]
}
