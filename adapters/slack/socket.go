package slack

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
)

// openSocket is apps.connections.open, which the SDK calls by itself.
var openSocket = method{name: "apps.connections.open"}

const (
	// connections is how many sockets a gateway holds. Slack sends each event to one of an app's sockets, ten at most,
	// and recycles every socket after some hours: with two there is always one that takes the next message.
	connections = 2
	// longestWait is how long a gateway waits between attempts to connect. The SDK would wait up to five minutes.
	longestWait = 10 * time.Second
)

// pingWithin is how long a socket may be silent, in nanoseconds: Slack pings every few seconds. Tests shorten it.
var pingWithin atomic.Int64

func init() { pingWithin.Store(int64(30 * time.Second)) }

// sockets holds the connections until ctx ends, or until Slack refuses the app's token for good.
func (in *inbound) sockets(ctx context.Context, me identity) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	refused := make(chan error, connections)
	var group sync.WaitGroup
	for n := range connections {
		group.Go(func() {
			if err := in.socket(ctx, me, &line{number: n}); err != nil {
				refused <- err
				cancel()
			}
		})
	}
	group.Wait()
	select {
	case err := <-refused:
		return err
	default:
		return nil
	}
}

// socket holds one connection. The SDK connects again at once when Slack recycles it, and with growing pauses when it
// cannot; here the pauses are cut short.
func (in *inbound) socket(ctx context.Context, me identity, l *line) error {
	for ctx.Err() == nil && !in.superfluous(l) {
		client := socketmode.New(in.api, socketmode.OptionPingInterval(time.Duration(pingWithin.Load())))
		running, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			in.pump(running, me, client, l, stop)
		}()
		failpoint.Hit("slack.apps.connections.open.before")
		err := client.RunContext(running)
		failpoint.Hit("slack.apps.connections.open.after")
		stop()
		<-done
		if err = translate(openSocket.name, err); fault.CodeOf(err) == fault.Forbidden {
			return mend(err, "SLACK_APP_TOKEN", "Basic Information, App-Level Tokens: one with connections:write (xapp-…)")
		}
		if ctx.Err() == nil && err != nil && !errors.Is(err, context.Canceled) {
			in.notReady(err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	return nil
}

// line is one socket's connection, as the events tell it.
type line struct {
	number     int
	up         bool         // guarded by inbound.mu
	since      time.Time    // when Slack greeted it; guarded by inbound.mu
	generation atomic.Int64 // of its connections
}

// pump takes a socket's events. An event is acknowledged when it is committed, on the connection that it came by: after
// another connection was made, Slack sends it again.
func (in *inbound) pump(ctx context.Context, me identity, client *socketmode.Client, l *line, restart context.CancelFunc) {
	defer in.lost(ctx, l)
	for {
		var e socketmode.Event
		select {
		case e = <-client.Events:
		case <-ctx.Done():
			return
		}
		switch e.Type {
		case socketmode.EventTypeHello:
			in.greeted(l)
		case socketmode.EventTypeConnected:
			l.generation.Add(1)
		case socketmode.EventTypeConnecting:
			in.lost(ctx, l)
			if in.superfluous(l) {
				restart()
			}
		case socketmode.EventTypeConnectionError:
			if failure, ok := e.Data.(*sdk.ConnectionErrorEvent); ok {
				in.notReady(translate(openSocket.name, failure.ErrorObj))
				if failure.Backoff > longestWait {
					restart()
				}
			}
		case socketmode.EventTypeErrorBadMessage:
			// The SDK knows not every event; what it could not read is read here, and acknowledged like the others.
			if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok {
				var request socketmode.Request
				if json.Unmarshal(bad.Message, &request) == nil && request.EnvelopeID != "" {
					in.dispatch(ctx, me, client, request, l)
				}
			}
		case socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand, socketmode.EventTypeInteractive:
			in.dispatch(ctx, me, client, *e.Request, l)
		}
	}
}

// dispatch takes in what a request brings and acknowledges it.
func (in *inbound) dispatch(ctx context.Context, me identity, client *socketmode.Client, request socketmode.Request, l *line) {
	generation := l.generation.Load()
	acknowledge := func(err error) {
		if err != nil || l.generation.Load() != generation {
			return
		}
		failpoint.Hit("slack.ack.before")
		_ = client.AckCtx(ctx, request.EnvelopeID, nil)
		failpoint.Hit("slack.ack.after")
	}
	conversation, do := in.workOf(me, request.Type, request.Payload)
	if do == nil {
		acknowledge(nil)
		return
	}
	in.inLane(ctx, conversation, func() { acknowledge(do(ctx)) })
}

// workOf tells what is to be done about a request, and in which conversation; nil when nothing is.
func (in *inbound) workOf(me identity, kind string, payload json.RawMessage) (ref, func(context.Context) error) {
	switch kind {
	case socketmode.RequestTypeEventsAPI:
		e, ours := in.decode(me, payload)
		if !ours {
			return "", nil
		}
		return e.Channel, func(ctx context.Context) error { return in.accept(ctx, me, e) }
	case socketmode.RequestTypeSlashCommands:
		var c command
		if json.Unmarshal(payload, &c) != nil {
			in.refuse("unreadable", "a command of Slack's cannot be read")
			return "", nil
		}
		return ref(c.Channel), func(ctx context.Context) error { return in.command(ctx, me, c) }
	case socketmode.RequestTypeInteractive:
		var p press
		if json.Unmarshal(payload, &p) != nil {
			in.refuse("unreadable", "a press of a button cannot be read")
			return "", nil
		}
		return ref(p.User.ID), func(ctx context.Context) error { return in.pressed(ctx, me, p) }
	}
	return "", nil
}

// greeted notes that a socket works. After a time without any, something may have been missed.
func (in *inbound) greeted(l *line) {
	in.mu.Lock()
	first := !l.up && in.connected == 0
	if !l.up {
		l.up, l.since = true, time.Now()
		in.connected++
	}
	in.mu.Unlock()
	if first {
		in.gateway.Ready(nil)
		in.missed()
	}
}

// A server may let an app have one socket, and close it for the next. After so many sockets that were closed as soon as
// they had been opened, the first is the only one.
const (
	mostEvictions = 3
	evictedWithin = 2 * time.Second
)

func (in *inbound) superfluous(l *line) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return l.number > 0 && in.evictions >= mostEvictions
}

func (in *inbound) lost(ctx context.Context, l *line) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if l.up {
		l.up = false
		in.connected--
		switch lived := time.Since(l.since); {
		case lived < evictedWithin:
			in.evictions++
		case lived > time.Minute:
			in.evictions = 0
		}
		if in.connected == 0 && ctx.Err() == nil {
			in.gateway.Ready(fault.New(fault.Unavailable, "no socket to Slack is connected"))
		}
	}
}

// notReady tells why there is no connection, if there is none.
func (in *inbound) notReady(err error) {
	in.mu.Lock()
	none := in.connected == 0
	in.mu.Unlock()
	if none {
		in.gateway.Ready(err)
	}
}
