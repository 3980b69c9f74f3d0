package slack

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// Commands are the slash commands that the app registers; Slack keeps every other word to itself. Each is the word after
// "/mikan-", as it works after a mention too.
func Commands() []string {
	return []string{
		"/mikan-auto-reply", "/mikan-compact", "/mikan-events", "/mikan-help", "/mikan-memory", "/mikan-model", "/mikan-new", "/mikan-session", "/mikan-stop",
	}
}

// command is a slash command.
type command struct {
	Command     string `json:"command"`
	Text        string `json:"text"`
	Team        string `json:"team_id"`
	Channel     string `json:"channel_id"`
	ChannelName string `json:"channel_name"`
	User        string `json:"user_id"`
	Trigger     string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
}

// command takes a command in as the message that it stands for. Slack knows no commands in threads: it is about the
// conversation's top level. It has no message id; the trigger's id, unique as it is, makes one.
func (in *inbound) command(ctx context.Context, me identity, c command) error {
	if c.Team != "" && c.Team != me.Team {
		in.refuse("workspace", "a command of another workspace was refused", "workspace", c.Team)
		return nil
	}
	in.responses.keep(c.Channel, c.User, c.ResponseURL)
	m, err := in.spoken(ctx, me, "cmd-"+c.Trigger, c.Channel, c.Channel, c.User)
	if err != nil {
		return nil // an id that intake would refuse
	}
	m.Text = strings.TrimSpace(c.Command + " " + c.Text)
	m.Reply = adapters.ReplyOf(terms{Team: me.Team, Channel: c.Channel, User: c.User, UserTeam: me.Team, OnlyFor: c.User})
	if c.ChannelName == "directmessage" {
		m.Audience = store.Private
	}
	_, err = in.receive(ctx, message{}, m)
	return err
}

// spoken is a message that somebody did not type.
func (in *inbound) spoken(ctx context.Context, me identity, id, channel, key, user string) (adapters.Message, error) {
	if _, err := session.ParseKey(key); err != nil {
		return adapters.Message{}, err
	}
	author, standing, err := in.author(ctx, me, message{User: ref(user)})
	if err != nil {
		return adapters.Message{}, err
	}
	m := adapters.Message{
		Address: office.Address{Platform: office.Slack, ConversationID: channel}, Installation: me.Team, Audience: store.Shared,
		SessionKey: key, ID: id, Author: author, Standing: standing, SentAt: time.Now(), Change: adapters.Created,
		Addressed: adapters.Pressed, Groups: groupsOf(me, message{Channel: ref(channel)}),
	}
	if strings.HasPrefix(channel, "D") {
		m.Audience = store.Private
	}
	return m, nil
}

// stopAction is the button that stops a run. Its value names the session.
const stopAction = "mikan_stop"

// stopValue is what the button carries.
type stopValue struct {
	Channel string `json:"channel"`
	Session string `json:"session"`
	Thread  string `json:"thread,omitempty"` // where the run answers
}

// press is a press of a button.
type press struct {
	Type    string `json:"type"`
	Trigger string `json:"trigger_id"`
	User    struct {
		ID   string `json:"id"`
		Team string `json:"team_id"`
	} `json:"user"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		TS    string `json:"action_ts"`
	} `json:"actions"`
}

// pressed takes a press of the stop button in as the word stop, said where the run answers.
func (in *inbound) pressed(ctx context.Context, me identity, p press) error {
	if p.Team.ID != "" && p.Team.ID != me.Team {
		in.refuse("workspace", "a press of another workspace's was refused", "workspace", p.Team.ID)
		return nil
	}
	for _, action := range p.Actions {
		var what stopValue
		if action.ID != stopAction || json.Unmarshal([]byte(action.Value), &what) != nil {
			continue
		}
		m, err := in.spoken(ctx, me, "press-"+p.Trigger, what.Channel, what.Session, p.User.ID)
		if err != nil {
			continue
		}
		m.Text = string(adapters.Stop)
		m.Reply = adapters.ReplyOf(terms{Team: me.Team, Channel: what.Channel, Thread: what.Thread, User: p.User.ID, UserTeam: me.Team})
		if _, err := in.receive(ctx, message{}, m); err != nil {
			return err
		}
		in.openHome(me, p.User.ID)
	}
	return nil
}

// responses remembers where a command can be answered in a conversation that mikan is no member of. Such an address is
// good for half an hour and is a secret, so it is kept in memory: it serves when the chat methods do not.
type responses struct {
	mu   sync.Mutex
	urls map[string]response
}

type response struct {
	url   string
	until time.Time
}

const responseLife = 30 * time.Minute

func newResponses() *responses { return &responses{urls: map[string]response{}} }

func (r *responses) keep(channel, user, address string) {
	if u, err := url.Parse(address); err != nil || u.Host == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, one := range r.urls {
		if time.Now().After(one.until) {
			delete(r.urls, key)
		}
	}
	r.urls[channel+"/"+user] = response{url: address, until: time.Now().Add(responseLife)}
}

func (r *responses) find(channel, user string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, known := r.urls[channel+"/"+user]
	return one.url, known && time.Now().Before(one.until)
}
