package github

import (
	"context"
	"strings"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/markdown"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
)

// marker is how a comment is known again as the delivery it is. GitHub shows nothing of it.
func marker(key string) string { return "<!-- mikan:" + key + " -->" }

// carries tells whether a comment is the delivery of that key. Only what the bound account wrote counts, and only at the
// end: anybody may quote a comment with everything in it.
func carries(author *sdk.User, body, key string, me identity) bool {
	return lower(author) == me.login && strings.HasSuffix(strings.TrimSpace(body), marker(key))
}

// body renders an answer. Names are mentioned only where they are somebody's whom mikan knows as a member: no other text
// notifies anybody.
func (a *Adapter) body(ctx context.Context, m adapters.Outgoing) string {
	return a.render(ctx, m.Markdown) + "\n\n" + marker(m.Key)
}

func (a *Adapter) render(ctx context.Context, source string) string {
	named := map[string]string{}
	markdown.GitHub(source, markdown.GitHubOptions{Names: func(name string) (string, bool) {
		named[strings.ToLower(name)] = ""
		return "", false
	}})
	if len(named) > 0 {
		a.resolve(ctx, named)
	}
	return markdown.GitHub(source, markdown.GitHubOptions{Names: func(name string) (string, bool) {
		login := named[strings.ToLower(name)]
		return "@" + login, login != ""
	}})
}

// resolve finds who is meant by names. Where it cannot, nobody is.
func (a *Adapter) resolve(ctx context.Context, named map[string]string) {
	me, err := a.self(ctx)
	if err != nil {
		return
	}
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	people, err := a.Store.PeopleNamed(ctx, string(office.GitHub), me.login, names)
	if err != nil {
		return
	}
	for name, p := range people {
		named[name] = p.Handle
	}
}

// Post comments on the issue or pull request, or answers in the inline thread that the answer belongs to.
func (a *Adapter) Post(ctx context.Context, m adapters.Outgoing) (string, error) {
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return "", err
	}
	return a.comment(ctx, at, a.body(ctx, m))
}

func (a *Adapter) comment(ctx context.Context, at target, body string) (id string, err error) {
	err = a.call(ctx, "comment", writing, rate.Final, func(ctx context.Context) error {
		if at.Thread != 0 {
			c, _, err := a.api.PullRequests.CreateCommentInReplyTo(ctx, at.Owner, at.Repo, at.Number, body, at.Thread)
			id = messageID(kindInline, c.GetID())
			return err
		}
		c, _, err := a.api.Issues.CreateComment(ctx, at.Owner, at.Repo, at.Number, &sdk.IssueComment{Body: &body})
		id = messageID(kindComment, c.GetID())
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// Edit changes a comment of the bound account.
func (a *Adapter) Edit(ctx context.Context, message string, m adapters.Outgoing) error {
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return err
	}
	k, id, err := parseID(message)
	if err != nil {
		return err
	}
	body := a.body(ctx, m)
	return a.call(ctx, "edit", writing, rate.Final, func(ctx context.Context) error {
		switch k {
		case kindComment:
			_, _, err := a.api.Issues.EditComment(ctx, at.Owner, at.Repo, id, &sdk.IssueComment{Body: &body})
			return err
		case kindInline:
			_, _, err := a.api.PullRequests.EditComment(ctx, at.Owner, at.Repo, id, &sdk.PullRequestComment{Body: &body})
			return err
		}
		return fault.New(fault.NotFound, "a %s is nothing of mikan's to edit", k)
	})
}

// Delete takes a comment of the bound account back.
func (a *Adapter) Delete(ctx context.Context, message string, m adapters.Outgoing) error {
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return err
	}
	k, id, err := parseID(message)
	if err != nil {
		return err
	}
	return a.call(ctx, "delete", writing, rate.Final, func(ctx context.Context) error {
		switch k {
		case kindComment:
			_, err := a.api.Issues.DeleteComment(ctx, at.Owner, at.Repo, id)
			return err
		case kindInline:
			_, err := a.api.PullRequests.DeleteComment(ctx, at.Owner, at.Repo, id)
			return err
		}
		return fault.New(fault.NotFound, "a %s is nothing of mikan's to delete", k)
	})
}

// clocksApart is how far GitHub's clock and the database's may differ.
const clocksApart = 2 * time.Minute

// FindDelivery looks for the marker among the conversation's comments, or the pull request's inline comments.
func (a *Adapter) FindDelivery(ctx context.Context, m adapters.Outgoing, since time.Time) (string, bool, error) {
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return "", false, err
	}
	return a.find(ctx, at, m.Key, since)
}

func (a *Adapter) find(ctx context.Context, at target, key string, since time.Time) (id string, found bool, err error) {
	me, err := a.self(ctx)
	if err != nil {
		return "", false, err
	}
	since = since.Add(-clocksApart).UTC()
	options := sdk.ListOptions{PerPage: perPage, Page: 1}
	for options.Page != 0 && !found {
		err := a.call(ctx, "find", reading, rate.Final, func(ctx context.Context) error {
			var answer *sdk.Response
			if at.Thread != 0 {
				some, said, err := a.api.PullRequests.ListComments(ctx, at.Owner, at.Repo, at.Number, &sdk.PullRequestListCommentsOptions{Since: since, ListOptions: options})
				for _, c := range some {
					if carries(c.GetUser(), c.GetBody(), key, me) {
						id, found = messageID(kindInline, c.GetID()), true
					}
				}
				if err != nil {
					return err
				}
				answer = said
			} else {
				some, said, err := a.api.Issues.ListComments(ctx, at.Owner, at.Repo, at.Number, &sdk.IssueListCommentsOptions{Since: &since, ListOptions: options})
				for _, c := range some {
					if carries(c.GetUser(), c.GetBody(), key, me) {
						id, found = messageID(kindComment, c.GetID()), true
					}
				}
				if err != nil {
					return err
				}
				answer = said
			}
			options.Page = answer.NextPage
			return nil
		})
		if err != nil {
			return "", false, err
		}
	}
	return id, found, nil
}

// seen is the reaction that says that a message was received.
const seen = "eyes"

// Mark puts the eyes on what was said. What has no reactions of its own (a review, an assignment) has them on the
// description. GitHub has no other signs.
func (a *Adapter) Mark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	if mark != adapters.MarkSeen {
		return nil
	}
	_, err := a.react(ctx, m)
	return err
}

func (a *Adapter) react(ctx context.Context, m adapters.Outgoing) (reaction int64, err error) {
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return 0, err
	}
	k, id, err := parseID(m.Cause)
	if err != nil {
		return 0, err
	}
	err = a.call(ctx, "react", writing, rate.Progress, func(ctx context.Context) error {
		var r *sdk.Reaction
		switch k {
		case kindComment:
			r, _, err = a.api.Reactions.CreateIssueCommentReaction(ctx, at.Owner, at.Repo, id, seen)
		case kindInline:
			r, _, err = a.api.Reactions.CreatePullRequestCommentReaction(ctx, at.Owner, at.Repo, id, seen)
		default:
			r, _, err = a.api.Reactions.CreateIssueReaction(ctx, at.Owner, at.Repo, at.Number, seen)
		}
		reaction = r.GetID()
		return err
	})
	return reaction, err
}

// Unmark takes the eyes off. Putting them on a second time is how GitHub tells which they are.
func (a *Adapter) Unmark(ctx context.Context, m adapters.Outgoing, mark adapters.Mark) error {
	if mark != adapters.MarkSeen {
		return nil
	}
	reaction, err := a.react(ctx, m)
	if err != nil {
		return err
	}
	at, err := a.targetOf(ctx, m)
	if err != nil {
		return err
	}
	k, id, err := parseID(m.Cause)
	if err != nil {
		return err
	}
	return a.call(ctx, "unreact", reading, rate.Progress, func(ctx context.Context) error {
		switch k {
		case kindComment:
			_, err = a.api.Reactions.DeleteIssueCommentReaction(ctx, at.Owner, at.Repo, id, reaction)
		case kindInline:
			_, err = a.api.Reactions.DeletePullRequestCommentReaction(ctx, at.Owner, at.Repo, id, reaction)
		default:
			_, err = a.api.Reactions.DeleteIssueReaction(ctx, at.Owner, at.Repo, at.Number, reaction)
		}
		return err
	})
}
