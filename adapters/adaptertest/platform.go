// Package adaptertest shows a test every chat platform in one way: a local server that speaks the platform's protocol,
// people who talk in its rooms, what they see there, and faults. What only one platform has is tested beside its adapter,
// on the server itself. A further platform adds one file here and a line to All.
package adaptertest

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/geminixiang/mikan/internal/office"
)

// All are the platforms, each with what starts its local server for the length of a test.
var All = map[office.Platform]func(testing.TB) Platform{
	office.Slack: NewSlack, office.Discord: NewDiscord, office.Telegram: NewTelegram, office.GitHub: NewGitHub,
}

// Platform is a local server as a test sees it.
type Platform interface {
	Name() office.Platform
	// Env points mikan at the server; Lines are those of the configuration file.
	Env() map[string]string
	Lines() []string
	// Serve gives the platform a gateway's webhooks; those with connections of their own ignore it.
	Serve(gateway http.Handler)
	// Connected tells whether so many gateways are taking events in, as far as the platform can tell.
	Connected(gateways int) bool
	// Mention is what people write to mention mikan.
	Mention() string
	// Person is the platform's id of somebody.
	Person(who Who) string
	// Room makes a conversation with mikan and a few people in it.
	Room(t testing.TB) Room
	// Again has the platform send its newest events once more.
	Again(t testing.TB)
	// Disturb has the next n calls that carry an answer fail in the given way.
	Disturb(t testing.TB, how Fault, n int)
	// DisturbAll has the next n calls of each method that shows, changes or removes a message fail in the given way.
	DisturbAll(t testing.TB, how Fault, n int)
	// Lose loses what is said meanwhile, in the way in which the platform loses events: nothing of it comes by itself.
	Lose(t testing.TB, meanwhile func())
	// Calm ends everything that Disturb and DisturbAll began.
	Calm(t testing.TB)
	// Strict has the server refuse what is beyond the platform's documented rates.
	Strict(t testing.TB)
	// Left lists what tells people that mikan is at work: statuses, open streams, signs on messages that wait.
	Left(t testing.TB) []string
	// Violations are rules of the platform's that mikan broke, a sentence each.
	Violations() []string
	// Features are those in which platforms differ.
	Features() Features
}

// Room is a conversation.
type Room interface {
	// ID is the platform's of the conversation.
	ID() string
	// Say says something; it returns the id by which Seen and replies name the message.
	Say(t testing.TB, s Saying) string
	// Edit changes what a message says, as its author.
	Edit(t testing.TB, id, text string)
	// Seen lists what mikan shows in the room and in its threads, oldest first.
	Seen(t testing.TB) []Shown
}

// Who is somebody in a room.
type Who string

const (
	Ann      Who = "ann"      // may talk to mikan
	Stranger Who = "stranger" // may not
	OtherBot Who = "bot"
)

// Saying is a message to be said.
type Saying struct {
	By      Who
	Text    string
	Mention bool   // of mikan, before the text
	Under   string // the message, mostly mikan's, whose thread or reply chain the new one continues
	File    []byte // attached as a picture; empty: none
}

// Shown is a message of mikan's.
type Shown struct {
	ID    string
	Text  string   // as people read it
	Pings []string // whom it notifies, who asked aside
}

// Fault is a way in which a platform's call fails.
type Fault string

const (
	LostReply   Fault = "lost reply"   // done, but the answer never comes back
	RateLimited Fault = "rate limited" // 429, for a second
	ServerError Fault = "server error" // 5xx, not done
)

// Features are those in which platforms differ.
type Features struct {
	TellsStrangers bool // in the room
	// Parallel: each message of a room begins a session of its own, so that answers have no order.
	Parallel bool
	// Long is how many characters are a few messages.
	Long int
}

var words atomic.Int64

// Word is one that nobody has said before in this process.
func Word() string { return fmt.Sprintf("word%d", words.Add(1)) }

// pictureName is what attached files are called.
const pictureName = "picture.png"
