package discord

import (
	"context"
	"strings"
	"sync"

	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// mostPeople bounds what is remembered of writes that need not be repeated.
const mostPeople = 10_000

// people keeps what Discord tells about authors, so that names in answers can become mentions.
type people struct {
	store *store.Store

	mu   sync.Mutex
	kept map[string]string // by id: what was stored
}

func newPeople(s *store.Store) *people { return &people{store: s, kept: map[string]string{}} }

// keep stores who is new or has changed. It is best effort: the next message tells again.
func (p *people) keep(ctx context.Context, installation string, m message) {
	var fresh []store.Person
	seen := m.Mentions
	if m.Author != nil && m.WebhookID == "" {
		seen = append([]user{*m.Author}, seen...)
	}
	p.mu.Lock()
	if len(p.kept) > mostPeople {
		p.kept = map[string]string{}
	}
	for _, u := range seen {
		facts := u.Username + "\x00" + u.GlobalName
		if p.kept[u.ID] == facts || u.ID == installation {
			continue
		}
		p.kept[u.ID] = facts
		fresh = append(fresh, store.Person{
			Platform: string(office.Discord), Installation: installation, ID: u.ID, Handle: u.Username, Name: u.name(), Bot: u.Bot,
		})
	}
	p.mu.Unlock()
	if len(fresh) > 0 && p.store.KeepPeople(ctx, fresh...) != nil {
		p.mu.Lock()
		for _, f := range fresh {
			delete(p.kept, f.ID)
		}
		p.mu.Unlock()
	}
}

// rendered is a text as Discord takes it, and whom it may notify.
type rendered struct {
	content string
	users   []string
}

// mostMentions is how many people Discord lets one message name in allowed_mentions.
const mostMentions = 100

// render makes Discord's dialect of Markdown. Only names of people that are known become mentions; when they cannot be
// looked up, they stay text.
func (a *Adapter) render(ctx context.Context, source string) rendered {
	var names []string
	plain := markdown.Discord(source, markdown.DiscordOptions{Names: func(name string) (string, bool) {
		names = append(names, name)
		return "", false
	}})
	if len(names) == 0 {
		return rendered{content: strings.TrimSpace(plain)}
	}
	self, err := a.me(ctx)
	if err != nil {
		return rendered{content: strings.TrimSpace(plain)}
	}
	meant, err := a.services.Store.PeopleNamed(ctx, string(office.Discord), self.ID, names)
	if err != nil || len(meant) == 0 {
		return rendered{content: strings.TrimSpace(plain)}
	}
	var r rendered
	mentioned := map[string]bool{}
	r.content = strings.TrimSpace(markdown.Discord(source, markdown.DiscordOptions{Names: func(name string) (string, bool) {
		p, ok := meant[strings.ToLower(name)]
		if !ok || !mentioned[p.ID] && len(r.users) == mostMentions {
			return "", false
		}
		if !mentioned[p.ID] {
			mentioned[p.ID] = true
			r.users = append(r.users, p.ID)
		}
		return "<@" + p.ID + ">", true
	}}))
	return r
}
