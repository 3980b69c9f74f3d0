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

// membershipAge is how long it is believed who is in a guild.
const membershipAge = 5 * time.Minute

// members remembers who is in which guild, with which roles.
type members struct {
	mu    sync.Mutex
	known map[string]membership
	// seen are those whom events have shown to be in a guild, for servers that cannot be asked.
	seen map[string]member
}

type membership struct {
	member *member // nil: is none
	until  time.Time
}

func newMembers() *members {
	return &members{known: map[string]membership{}, seen: map[string]member{}}
}

// meet notes who an event shows to be in a guild.
func (s *members) meet(guildID string, who ...member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) > mostPeople {
		clear(s.seen)
	}
	for _, m := range who {
		if m.User != nil && guildID != "" {
			s.seen[guildID+"/"+m.User.ID] = m
		}
	}
}

func (s *members) met(key string) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.seen[key]; ok {
		return &m
	}
	return nil
}

// memberOf asks Discord who somebody is in a guild; nil when they are not in it, or the bot is not.
func (a *Adapter) memberOf(ctx context.Context, guildID, userID string) (*member, error) {
	key := guildID + "/" + userID
	a.members.mu.Lock()
	known, ok := a.members.known[key]
	a.members.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.member, nil
	}
	var m member
	found := &m
	err := a.api.do(ctx, call{what: "member", method: "GET", path: "guilds/" + guildID + "/members/" + userID, major: guildID}, &m)
	switch code := fault.CodeOf(err); {
	case code == fault.NotFound && !saidNo(err, codeUnknownMember, codeUnknownGuild, codeUnknownUser):
		return a.members.met(key), nil // it is not the person that is unknown: such a question is
	case code == fault.NotFound || code == fault.Forbidden && saidNo(err, codeMissingAccess):
		found = nil
	case err != nil:
		return nil, err
	}
	a.members.mu.Lock()
	defer a.members.mu.Unlock()
	if len(a.members.known) > mostPeople {
		a.members.known = map[string]membership{}
	}
	a.members.known[key] = membership{member: found, until: time.Now().Add(membershipAge)}
	return found, nil
}

// codeMissingAccess is what a guild says that the bot has left.
const codeMissingAccess = 50001

// Standing tells of the author of a direct message whether they belong to what is listed: a guild, or a role in a guild
// that is listed or that the bot is in.
func (a *Adapter) Standing(ctx context.Context, who adapters.Applicant) (adapters.Standing, error) {
	rules, err := a.rules(ctx, office.Discord)
	if err != nil {
		return adapters.Unknown, err
	}
	allowed, denied := map[store.PrincipalKind][]string{}, map[store.PrincipalKind][]string{}
	for _, r := range rules {
		into := allowed
		if r.Effect == store.Deny {
			into = denied
		}
		into[r.Kind] = append(into[r.Kind], r.Principal)
	}
	guilds := slices.Clone(allowed[store.PrincipalGuild])
	if len(allowed[store.PrincipalRole])+len(denied[store.PrincipalRole])+len(denied[store.PrincipalGuild]) > 0 {
		own, err := a.ownGuilds(ctx)
		if err != nil {
			return adapters.Unknown, err
		}
		guilds = append(guilds, own...)
	}
	slices.Sort(guilds)
	standing := adapters.Stranger
	for _, guildID := range slices.Compact(guilds) {
		m, err := a.memberOf(ctx, guildID, who.AuthorID)
		switch {
		case err != nil:
			return adapters.Unknown, err
		case m == nil:
			continue
		case slices.Contains(denied[store.PrincipalGuild], guildID), overlap(m.Roles, denied[store.PrincipalRole]):
			return adapters.Stranger, nil
		case slices.Contains(allowed[store.PrincipalGuild], guildID), overlap(m.Roles, allowed[store.PrincipalRole]):
			standing = adapters.Member
		}
	}
	return standing, nil
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// ownGuilds are those that the bot is in; Discord returns up to 200.
func (a *Adapter) ownGuilds(ctx context.Context) ([]string, error) {
	var list []struct {
		ID string `json:"id"`
	}
	err := a.api.do(ctx, call{what: "guilds", method: "GET", path: "users/@me/guilds"}, &list)
	ids := make([]string, len(list))
	for i, g := range list {
		ids[i] = g.ID
	}
	return ids, err
}
