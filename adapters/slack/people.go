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
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// rememberFor is how long this process believes what it knows about a person, or that it knows nothing: another process
// may have learned more. The directory as a whole is read anew every hour; Slack's event for it, user_change, comes for
// every change of anybody's status.
const rememberFor = 5 * time.Minute

// directory is what is known about people: in memory, behind that in the database, and never a call away.
type directory struct {
	store *store.Store

	mu     sync.Mutex
	known  map[string]recollection
	byName map[string]recollection
}

type recollection struct {
	person store.Person
	known  bool
	until  time.Time
}

func newDirectory(s *store.Store) *directory {
	return &directory{store: s, known: map[string]recollection{}, byName: map[string]recollection{}}
}

// person finds somebody by id; false when nothing is known.
func (d *directory) person(ctx context.Context, team, id string) (store.Person, bool) {
	if id == "" || d.store == nil {
		return store.Person{}, false
	}
	d.mu.Lock()
	r, fresh := d.known[id]
	d.mu.Unlock()
	if fresh && time.Now().Before(r.until) {
		return r.person, r.known
	}
	p, known, err := d.store.Person(ctx, string(office.Slack), team, id)
	if err != nil {
		return r.person, r.known // older knowledge is better than none
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[id] = recollection{person: p, known: known, until: time.Now().Add(rememberFor)}
	return p, known
}

// named finds who is meant by a name; false when nobody is, or several.
func (d *directory) named(ctx context.Context, team, name string) (store.Person, bool) {
	name = strings.ToLower(name)
	d.mu.Lock()
	r, fresh := d.byName[name]
	d.mu.Unlock()
	if fresh && time.Now().Before(r.until) {
		return r.person, r.known
	}
	people, err := d.store.PeopleNamed(ctx, string(office.Slack), team, []string{name})
	if err != nil {
		return store.Person{}, false
	}
	p, known := people[name]
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.byName) > 10_000 {
		clear(d.byName) // models write many things with an @ before them
	}
	d.byName[name] = recollection{person: p, known: known, until: time.Now().Add(rememberFor)}
	return p, known
}

// keep remembers people, for every process.
func (d *directory) keep(ctx context.Context, people ...store.Person) error {
	if err := d.store.KeepPeople(ctx, people...); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range people {
		d.known[p.ID] = recollection{person: p, known: true, until: time.Now().Add(rememberFor)}
	}
	clear(d.byName)
	return nil
}

// personOf is what Slack tells of a user, as mikan keeps it. Guests are those whose workspace restricts them; strangers
// belong to another workspace and are met in shared channels.
func personOf(team string, u sdk.User) store.Person {
	p := store.Person{
		Platform: string(office.Slack), Installation: team, ID: u.ID, Handle: u.Name, Name: nameOf(u),
		Standing: string(adapters.Member), Bot: u.IsBot || u.ID == slackbot,
	}
	if u.IsRestricted || u.IsUltraRestricted || u.IsStranger || u.Deleted || u.TeamID != "" && u.TeamID != team && !inGrid(u, team) {
		p.Standing = string(adapters.Stranger)
	}
	return p
}

// slackbot is everywhere, and no user.
const slackbot = "USLACKBOT"

// inGrid tells whether somebody of an Enterprise organisation belongs to the workspace as well.
func inGrid(u sdk.User, team string) bool {
	for _, member := range u.Enterprise.Teams {
		if member == team {
			return true
		}
	}
	return false
}

func nameOf(u sdk.User) string {
	for _, name := range []string{u.Profile.DisplayName, u.RealName, u.Profile.RealName, u.Name} {
		if name != "" {
			return name
		}
	}
	return u.ID
}

// Standing looks somebody up whom no event had told about.
func (a *Adapter) Standing(ctx context.Context, who adapters.Applicant) (adapters.Standing, error) {
	if p, known := a.people.person(ctx, who.Installation, who.AuthorID); known && p.Standing != string(adapters.Unknown) {
		return standingOf(p), nil
	}
	p, err := a.lookUp(ctx, who.Installation, who.AuthorID)
	if fault.CodeOf(err) == fault.NotFound {
		return adapters.Stranger, nil
	}
	if err != nil {
		return adapters.Unknown, err
	}
	return standingOf(p), nil
}

// lookUp asks Slack about somebody and remembers the answer.
func (a *Adapter) lookUp(ctx context.Context, team, id string) (store.Person, error) {
	var user *sdk.User
	err := a.limited(ctx, team, usersInfo, "", rate.Final, func(ctx context.Context) error {
		var err error
		user, err = a.api.GetUserInfoContext(ctx, id)
		return err
	})
	if err != nil {
		return store.Person{}, err
	}
	p := personOf(team, *user)
	return p, a.people.keep(ctx, p)
}

// standingOf tells what a person may do by default. Bots never may.
func standingOf(p store.Person) adapters.Standing {
	if p.Bot {
		return adapters.Stranger
	}
	return adapters.Standing(p.Standing)
}

// readPeople learns everybody of the workspace, page by page. It is slow on purpose: 20 pages a minute are allowed.
func (a *Adapter) readPeople(ctx context.Context, team string) error {
	page := a.api.GetUsersPaginated(sdk.GetUsersOptionLimit(200))
	for {
		var next sdk.UserPagination
		err := a.patiently(ctx, team, usersList, func(ctx context.Context) error {
			var err error
			next, err = page.Next(ctx)
			return err
		})
		if err != nil {
			return err
		}
		people := make([]store.Person, len(next.Users))
		for i, u := range next.Users {
			people[i] = personOf(team, u)
		}
		if err := a.people.keep(ctx, people...); err != nil {
			return err
		}
		page = next
		if page.Cursor == "" {
			return nil
		}
	}
}

// channels is what is known about conversations: their names, for people; nothing depends on them.
type channels struct {
	store *store.Store

	mu    sync.Mutex
	names map[string]string
}

func newChannels(s *store.Store) *channels { return &channels{store: s, names: map[string]string{}} }

func (c *channels) name(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, known := c.names[id]
	return name, known
}

func (c *channels) keep(id, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[id] = name
}

// names are what a message's mentions are read with.
type names struct {
	ctx  context.Context
	team string
	a    *Adapter
}

func (n names) personNamed(id string) (string, bool) {
	p, known := n.a.people.person(n.ctx, n.team, id)
	return p.Name, known && p.Name != ""
}

func (n names) channelNamed(id string) (string, bool) { return n.a.channels.name(id) }

// mentionOptions resolve the "@name" of an answer to people of the workspace.
func (a *Adapter) mentionOptions(ctx context.Context, team string) markdown.SlackOptions {
	return markdown.SlackOptions{Names: func(name string) (string, bool) {
		p, known := a.people.named(ctx, team, name) // never by id: "<@U123>" in an answer notifies nobody
		return "<@" + p.ID + ">", known && p.ID != ""
	}}
}

// splitOptions stand for any workspace when a text is cut: every name may turn into the longest mention there is.
var splitOptions = markdown.SlackOptions{Names: func(string) (string, bool) { return "<@U0123456789AB>", true }}
