package adapters

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
)

// Access decides who may talk to mikan, for all platforms. An office's own list of people decides alone. Else the rules
// of the installation do: a rule about the person before one about something the person belongs to, deny before allow.
// Where there is no rule that allows anything, the platform's default holds, which is the message's Standing.
type Access struct {
	Store *store.Store
	// Listed are the rules of the configuration file; those in the database come on top.
	Listed []store.AccessRule
}

// ListedAccess makes rules of what the configuration file lists.
func ListedAccess(a config.Access) []store.AccessRule {
	var rules []store.AccessRule
	list := func(p office.Platform, kind store.PrincipalKind, ids []string) {
		for _, id := range ids {
			rules = append(rules, store.AccessRule{Platform: string(p), Kind: kind, Principal: id, Effect: store.Allow})
		}
	}
	list(office.Slack, store.PrincipalWorkspace, a.Slack.Workspaces)
	list(office.Slack, store.PrincipalChat, a.Slack.Channels)
	list(office.Slack, store.PrincipalUser, a.Slack.Users)
	list(office.Discord, store.PrincipalGuild, a.Discord.Guilds)
	list(office.Discord, store.PrincipalUser, a.Discord.Users)
	list(office.Telegram, store.PrincipalUser, a.Telegram.Users)
	list(office.Telegram, store.PrincipalChat, a.Telegram.Chats)
	list(office.GitHub, store.PrincipalRepository, a.GitHub.Repositories)
	list(office.GitHub, store.PrincipalUser, a.GitHub.Users)
	return rules
}

// Rules are those in force on a platform.
func (a *Access) Rules(ctx context.Context, p office.Platform) ([]store.AccessRule, error) {
	rules, err := a.Store.AccessRules(ctx, string(p))
	for _, r := range a.Listed {
		if r.Platform == string(p) {
			rules = append(rules, r)
		}
	}
	return rules, err
}

// standing tells whether somebody may talk to mikan in an office; Unknown when the platform must be asked.
func (a *Access) standing(ctx context.Context, m Message, in settings.Office, lists Lists) (Standing, error) {
	if len(in.Allowed) > 0 {
		return memberIf(slices.Contains(in.Allowed, m.Author.ID)), nil
	}
	rules, err := a.Rules(ctx, m.Address.Platform)
	if err != nil {
		return Unknown, err
	}
	own := m.Standing
	if own == "" {
		own = Member
	}
	return byRules(rules, principals(m), own, lists), nil
}

// principals are all that a rule can name about a message, the author first.
func principals(m Message) []Group {
	all := []Group{{Kind: store.PrincipalUser, ID: m.Author.ID}}
	if chat := (Group{Kind: store.PrincipalChat, ID: m.Address.ConversationID}); !slices.Contains(m.Groups, chat) {
		all = append(all, chat)
	}
	return append(all, m.Groups...)
}

// byRules applies rules to somebody. own is what the platform itself says.
func byRules(rules []store.AccessRule, who []Group, own Standing, lists Lists) Standing {
	allowed, denied := ruled(rules, who[:1])
	if !allowed && !denied {
		allowed, denied = ruled(rules, who[1:])
	}
	switch {
	case denied:
		return Stranger
	case lists == ListsNarrow:
		if !within(rules, who) {
			return Stranger
		}
		return own
	case allowed:
		return Member
	case !slices.ContainsFunc(rules, allows):
		return own
	case own == Unknown && slices.ContainsFunc(rules, belonging):
		return Unknown // the platform may know that the person belongs to what is listed
	}
	return Stranger
}

func ruled(rules []store.AccessRule, who []Group) (allowed, denied bool) {
	for _, r := range rules {
		if slices.ContainsFunc(who, func(g Group) bool { return matches(r, g) }) {
			allowed = allowed || r.Effect == store.Allow
			denied = denied || r.Effect == store.Deny
		}
	}
	return allowed, denied
}

// within tells whether somebody is on every list there is, one list for each kind of principal.
func within(rules []store.AccessRule, who []Group) bool {
	for _, kind := range store.PrincipalKinds() {
		listed, found := false, false
		for _, r := range rules {
			if r.Kind == kind && allows(r) {
				listed = true
				found = found || slices.ContainsFunc(who, func(g Group) bool { return matches(r, g) })
			}
		}
		if listed && !found {
			return false
		}
	}
	return true
}

func allows(r store.AccessRule) bool { return r.Effect == store.Allow }

func belonging(r store.AccessRule) bool {
	return allows(r) && r.Kind != store.PrincipalUser && r.Kind != store.PrincipalChat
}

// matches compares without case: GitHub's names have none, and no other platform has ids that differ by it alone. A
// repository may be given as owner/*.
func matches(r store.AccessRule, g Group) bool {
	if r.Kind != g.Kind {
		return false
	}
	if r.Kind == store.PrincipalRepository {
		ok, err := path.Match(strings.ToLower(r.Principal), strings.ToLower(g.ID))
		return ok && err == nil
	}
	return strings.EqualFold(r.Principal, g.ID)
}

func memberIf(ok bool) Standing {
	if ok {
		return Member
	}
	return Stranger
}
