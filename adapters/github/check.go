package github

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
)

// Events are what the webhook must send.
func Events() []string { return slices.Clone(handled) }

// mostChecked is how many repositories are looked at.
const mostChecked = 10

// Check tells whose the token is, and of each repository that mikan follows whether the token may read and answer there
// and the webhook sends what is needed.
func (a *Adapter) Check(ctx context.Context) []adapters.Finding {
	token := adapters.Finding{What: "token"}
	var user *sdk.User
	var answer *sdk.Response
	token.Err = a.call(ctx, "user", reading, rate.Final, func(ctx context.Context) error {
		var err error
		user, answer, err = a.api.Users.Get(ctx, "")
		return err
	})
	if token.Err != nil {
		return []adapters.Finding{token}
	}
	token.Note = "@" + user.GetLogin()
	if end := answer.Header.Get("GitHub-Authentication-Token-Expiration"); end != "" {
		token.Note += ", until " + end
	}
	findings := []adapters.Finding{token}
	positions, err := a.Store.Cursors(ctx, string(office.GitHub), strings.ToLower(user.GetLogin()))
	if err != nil {
		return append(findings, adapters.Finding{What: "repositories", Err: err})
	}
	for _, scope := range sortedKeys(positions) {
		full, is := strings.CutPrefix(scope, "repo:")
		if !is || len(findings) > 2*mostChecked {
			continue
		}
		owner, name, _ := strings.Cut(full, "/")
		at := target{Owner: owner, Repo: name}
		findings = append(findings, a.checkRepository(ctx, at, user.GetLogin()), a.checkWebhook(ctx, at))
	}
	if len(findings) == 1 {
		findings = append(findings, adapters.Finding{What: "webhook", Note: "nothing has come in yet; add a webhook that sends to " + WebhookPath + " of this gateway, then mention @" + user.GetLogin()})
	}
	return findings
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// checkRepository makes the calls that every conversation needs.
func (a *Adapter) checkRepository(ctx context.Context, at target, login string) adapters.Finding {
	f := adapters.Finding{What: "repository " + at.full()}
	for _, try := range []struct {
		needs string
		do    func(context.Context) error
	}{
		{"Metadata: read, and the repository among the token's", func(ctx context.Context) error {
			_, _, err := a.api.Repositories.Get(ctx, at.Owner, at.Repo)
			return err
		}},
		{"Issues: read and write", func(ctx context.Context) error {
			_, _, err := a.api.Issues.ListByRepo(ctx, at.Owner, at.Repo, &sdk.IssueListByRepoOptions{ListOptions: sdk.ListOptions{PerPage: 1}})
			return err
		}},
		{"Pull requests: read and write", func(ctx context.Context) error {
			_, _, err := a.api.PullRequests.ListComments(ctx, at.Owner, at.Repo, 0, &sdk.PullRequestListCommentsOptions{ListOptions: sdk.ListOptions{PerPage: 1}})
			return err
		}},
	} {
		if err := a.call(ctx, "check", reading, rate.Final, try.do); err != nil {
			f.Err = err
			if code := fault.CodeOf(err); code == fault.Forbidden || code == fault.NotFound {
				f.Err = fault.New(code, "the token lacks %s; add it in the token's settings", try.needs)
			}
			return f
		}
	}
	var level *sdk.RepositoryPermissionLevel
	f.Err = a.call(ctx, "permission", reading, rate.Final, func(ctx context.Context) error {
		var err error
		level, _, err = a.api.Repositories.GetPermissionLevel(ctx, at.Owner, at.Repo, login)
		return err
	})
	if code := fault.CodeOf(f.Err); code == fault.Forbidden || code == fault.NotFound || f.Err == nil && level.GetPermission() != "write" && level.GetPermission() != "admin" {
		f.Err = fault.New(fault.Forbidden, "give @%s the role Write there; without it GitHub does not tell who may write, and nobody is answered", login)
	}
	if f.Err == nil {
		f.Note = "readable, @" + login + " has " + level.GetPermission()
	}
	return f
}

func (a *Adapter) checkWebhook(ctx context.Context, at target) adapters.Finding {
	f := adapters.Finding{What: "webhook of " + at.full()}
	var hooks []*sdk.Hook
	err := a.call(ctx, "check", reading, rate.Final, func(ctx context.Context) error {
		var err error
		hooks, _, err = a.api.Repositories.ListHooks(ctx, at.Owner, at.Repo, &sdk.ListOptions{PerPage: perPage})
		return err
	})
	switch fault.CodeOf(err) {
	case "":
	case fault.Forbidden, fault.NotFound:
		f.Note = "not visible to the token (permission Webhooks); what a delivery misses is found by reading"
		return f
	default:
		f.Err = err
		return f
	}
	for _, h := range hooks {
		if !strings.HasSuffix(h.GetConfig().GetURL(), WebhookPath) {
			continue
		}
		missing := slices.DeleteFunc(Events(), func(e string) bool { return slices.Contains(h.Events, e) || slices.Contains(h.Events, "*") })
		switch {
		case !h.GetActive():
			f.Err = fault.New(fault.Unavailable, "it is switched off; activate it in the repository's settings")
		case len(missing) > 0:
			f.Err = fault.New(fault.Invalid, "it does not send %s; add them in the webhook's settings", strings.Join(missing, ", "))
		default:
			f.Note = fmt.Sprintf("active, id %d", h.GetID())
		}
		return f
	}
	f.Note = "none of the repository's own; one of its organisation sends, or none"
	return f
}
