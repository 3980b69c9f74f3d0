package conformance_test

import (
	"net/http"
	"testing"

	"github.com/geminixiang/mikan/internal/office"
)

// platform is a local server as the suite sees it: people who talk, and what they see.
type platform interface {
	name() office.Platform
	// env points mikan at the server; lines are those of the configuration file.
	env() map[string]string
	lines() []string
	// serve gives the platform the gateway's webhooks; those with connections of their own ignore it.
	serve(gateway http.Handler)
	// connected tells how many gateways are taking events in, where the platform can tell; else want.
	connected(want int) bool
	// room makes a conversation with mikan and two people in it.
	room(t testing.TB) room
	// again has the platform send its newest events once more.
	again(t testing.TB)
	// disturb has the next n calls that carry an answer fail in the given way.
	disturb(t testing.TB, how fault, n int)
	// violations are rules of the platform's that mikan broke.
	violations() []string
	// features that differ between platforms.
	features() features
}

// room is a conversation.
type room interface {
	// say says something; it returns the id by which seen and replies name the message.
	say(t testing.TB, s saying) string
	// edit changes a message without adding a mention.
	edit(t testing.TB, id, text string)
	// seen lists what mikan shows in the room and in its threads, oldest first.
	seen(t testing.TB) []shown
}

type who string

const (
	ann      who = "ann"      // may talk to mikan
	stranger who = "stranger" // may not
	otherBot who = "bot"
)

type saying struct {
	by      who
	text    string
	mention bool
	under   string // the message, mostly mikan's, whose thread or reply chain the new one continues
}

type shown struct {
	id    string
	text  string // as people read it
	pings []string
}

type fault string

const (
	lostReply   fault = "lost reply"   // done, but the answer never comes back
	rateLimited fault = "rate limited" // 429, for a second
	serverError fault = "server error" // 5xx, not done
)

type features struct {
	tellsStrangers bool // in the room
	// parallel: each message of a room begins a session of its own, so that answers have no order.
	parallel bool
	// long is how many characters are a few messages.
	long int
}
