package discord_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
)

var outgoings atomic.Int64 // tests run beside each other

// outgoing is an answer in a channel to a message; without one, to nobody in particular.
func (r *rig) outgoing(channel, answers, text string) adapters.Outgoing {
	m := adapters.Outgoing{
		Address: office.Address{Platform: office.Discord, ConversationID: channel}, SessionKey: channel, Markdown: text,
		Key: fmt.Sprintf("%024d", outgoings.Add(1)), Cause: answers,
	}
	if answers != "" {
		m.Reply = json.RawMessage(`{"guild":"` + r.guild + `","channel":"` + channel + `","message":"` + answers + `"}`)
	}
	return m
}
