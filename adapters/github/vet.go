package github

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// standings remember for a while who may write where. Each process asks for itself.
type standings struct {
	mu    sync.Mutex
	known map[string]standing
}

type standing struct {
	is    adapters.Standing
	since time.Time
}

// standingLasts is how long a permission that was taken away may still count.
const standingLasts = 5 * time.Minute

func newStandings() *standings { return &standings{known: map[string]standing{}} }

func (s *standings) get(key string) (adapters.Standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.known[key]
	return k.is, ok && time.Since(k.since) < standingLasts
}

func (s *standings) set(key string, is adapters.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 10_000
	if len(s.known) > most {
		clear(s.known)
	}
	s.known[key] = standing{is: is, since: time.Now()}
}

// Standing tells whether somebody may write to the repository that the conversation is in. Whoever GitHub does not
// vouch for is a stranger; only where it cannot be asked now, it is asked again. A conversation that mikan is called
// into is read on the way, before its first run begins.
func (a *Adapter) Standing(ctx context.Context, p adapters.Applicant) (adapters.Standing, error) {
	at, err := readTarget(p.Reply, p.Address)
	if err != nil {
		return adapters.Stranger, nil
	}
	is, err := a.writer(ctx, at, p.AuthorID)
	if err != nil || is != adapters.Member {
		return is, err
	}
	me, err := a.self(ctx)
	if err != nil {
		return adapters.Unknown, err
	}
	a.keepPerson(ctx, me, p.AuthorID)
	if err := a.join(ctx, me, at); err != nil && ctx.Err() == nil {
		a.Log.Warn("the past of a conversation on GitHub is not read yet", "code", fault.CodeOf(err))
	}
	return adapters.Member, nil
}

// writer asks for the permission, which "write", "maintain" and "admin" hold; github.com reports maintain as write.
func (a *Adapter) writer(ctx context.Context, at target, login string) (adapters.Standing, error) {
	key := at.full() + " " + login
	if is, ok := a.standing.get(key); ok {
		return is, nil
	}
	var level *sdk.RepositoryPermissionLevel
	err := a.call(ctx, "permission", reading, rate.Final, func(ctx context.Context) error {
		var err error
		level, _, err = a.api.Repositories.GetPermissionLevel(ctx, at.Owner, at.Repo, login)
		return err
	})
	is := adapters.Stranger
	switch code := fault.CodeOf(err); {
	case err == nil && slices.Contains([]string{"admin", "maintain", "write"}, level.GetPermission()):
		is = adapters.Member
	case err != nil && (fault.Retryable(code) || code == fault.Interrupted):
		return adapters.Unknown, err
	case err != nil:
		a.Log.Warn("GitHub does not tell who may write; nobody new is answered there", "repository", at.full(), "code", code, "error", err)
	}
	a.standing.set(key, is)
	return is, nil
}

func (a *Adapter) keepPerson(ctx context.Context, me identity, login string) {
	_ = a.Store.KeepPeople(ctx, store.Person{
		Platform: string(office.GitHub), Installation: me.login, ID: login, Handle: login, Standing: string(adapters.Member),
	})
}

// recently is how far back a mention that is found in the past of a conversation may be one whose webhook is on its way.
const recently = 10 * time.Minute

// join reads the past of a conversation into the log, once: the description, the newest comments, reviews and inline
// comments. None of it is answered, but for mentions so new that their own report may not have been taken in yet.
func (a *Adapter) join(ctx context.Context, me identity, at target) error {
	a.mu.Lock()
	receive := a.receive
	a.mu.Unlock()
	if receive == nil {
		return nil // no gateway; the one that reads what changed does it
	}
	of := store.Stream{Platform: string(office.GitHub), Installation: me.login, Scope: issueScope(at)}
	if _, joined, err := a.Store.Cursor(ctx, of); err != nil || joined {
		return err
	}
	boundary := time.Now().Add(-recently)
	if cursor, known, err := a.Store.Cursor(ctx, store.Stream{Platform: of.Platform, Installation: of.Installation, Scope: repoScope(at)}); err != nil {
		return err
	} else if known {
		boundary = parsePosition(cursor).Add(-overlap)
	}
	past, err := a.past(ctx, at)
	if err != nil {
		return err
	}
	for _, s := range past {
		m, ok, err := a.message(s, me)
		if err != nil || !ok {
			continue
		}
		if m.Addressed != adapters.Mention || s.created.Before(boundary) {
			m.Purpose, m.Addressed = adapters.ForContext, adapters.NotAddressed
		}
		if _, err := receive(ctx, m); err != nil && fault.Retryable(fault.CodeOf(err)) {
			return err
		}
		if m.Author.Kind == store.AuthorHuman && !outside(s.association) {
			a.keepPerson(ctx, me, m.Author.ID)
		}
	}
	return a.Store.SetCursor(ctx, of, position(time.Now()))
}

// past reads a conversation, oldest first.
func (a *Adapter) past(ctx context.Context, at target) ([]said, error) {
	repo := repository(at)
	var issue *sdk.Issue
	err := a.call(ctx, "issue", reading, rate.Final, func(ctx context.Context) error {
		var err error
		issue, _, err = a.api.Issues.Get(ctx, at.Owner, at.Repo, at.Number)
		return err
	})
	if err != nil {
		return nil, err
	}
	description := ofIssue(repo, issue)
	all := []said{description}
	more := func(s said) {
		s.opener, s.opened = description.opener, description.opened
		s.at.Pull = description.at.Pull
		all = append(all, s)
	}
	comments, err := a.commentsOf(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, c := range comments {
		more(ofComment(repo, at.Number, c))
	}
	if !description.at.Pull {
		return inOrder(all), nil
	}
	reviews, err := a.reviewsOf(ctx, at, time.Time{})
	if err != nil {
		return nil, err
	}
	for _, r := range reviews {
		more(ofReview(repo, at.Number, r))
	}
	inline, err := a.inlineOf(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, c := range inline {
		more(ofInline(repo, at.Number, c))
	}
	return inOrder(all), nil
}

func inOrder(all []said) []said {
	slices.SortStableFunc(all, func(x, y said) int { return x.created.Compare(y.created) })
	for i := range all {
		all[i].change = adapters.Created
	}
	return all
}

// newestComments is how many comments of each kind are read: what the context of a session begins with, or more.
const newestComments = 200

func (a *Adapter) commentsOf(ctx context.Context, at target) ([]*sdk.IssueComment, error) {
	read := 0
	return tail(ctx, a, func(ctx context.Context, o *sdk.ListOptions) ([]*sdk.IssueComment, *sdk.Response, error) {
		return a.api.Issues.ListComments(ctx, at.Owner, at.Repo, at.Number, &sdk.IssueListCommentsOptions{ListOptions: *o})
	}, func(page []*sdk.IssueComment) bool { read += len(page); return read >= newestComments })
}

func (a *Adapter) inlineOf(ctx context.Context, at target) ([]*sdk.PullRequestComment, error) {
	read := 0
	return tail(ctx, a, func(ctx context.Context, o *sdk.ListOptions) ([]*sdk.PullRequestComment, *sdk.Response, error) {
		return a.api.PullRequests.ListComments(ctx, at.Owner, at.Repo, at.Number, &sdk.PullRequestListCommentsOptions{Sort: "created", Direction: "asc", ListOptions: *o})
	}, func(page []*sdk.PullRequestComment) bool { read += len(page); return read >= newestComments })
}

// joinSoon reads the past of a conversation whose sender needed no vetting, beside the webhook.
func (in *inbound) joinSoon(ctx context.Context, me identity, at target) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	go func() {
		defer cancel()
		if err := in.join(ctx, me, at); err != nil {
			in.Log.Warn("the past of a conversation on GitHub is not read yet", "repository", strings.ToLower(at.full()), "code", fault.CodeOf(err))
		}
	}()
}
