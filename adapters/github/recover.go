package github

import (
	"context"
	"strconv"
	"strings"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// overlap is how far behind the cursor reading begins again: GitHub's lists are behind its own writes now and then.
const overlap = time.Minute

// Bounds of one reading of one repository; what is beyond is read by the next.
const (
	perPage   = 100 // GitHub's most
	mostPages = 30
)

// readAll reads every repository that mikan follows, and asks for what its webhooks failed to deliver. The error is
// forbidden only when the token is refused altogether.
func (in *inbound) readAll(ctx context.Context, me identity) error {
	if err := in.stillAccepted(ctx); err != nil {
		return err
	}
	positions, err := in.Store.Cursors(ctx, string(in.Platform()), me.login)
	if err != nil {
		return err
	}
	var failed error
	for scope, at := range positions {
		var err error
		if full, is := strings.CutPrefix(scope, "repo:"); is {
			owner, name, _ := strings.Cut(full, "/")
			err = in.readRepository(ctx, me, target{Owner: owner, Repo: name}, parsePosition(at))
		} else if h, is := parseHook(scope); is && strings.HasPrefix(scope, "hook:") {
			err = in.askAgain(ctx, me, h, parsePosition(at))
		}
		switch code := fault.CodeOf(err); {
		case err == nil:
		case code == fault.Forbidden, code == fault.NotFound, code == fault.Invalid:
			// This repository or webhook is not the token's any more; the others are.
			in.Log.Warn("a place on GitHub cannot be read", "scope", scope, "code", code, "error", err)
		default:
			failed = err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return failed
}

func (in *inbound) stillAccepted(ctx context.Context) error {
	return in.call(ctx, "user", reading, rate.Final, func(ctx context.Context) error {
		_, _, err := in.api.Users.Get(ctx, "")
		return err
	})
}

// progress is how far one reading has come.
type progress struct {
	newest time.Time
	cut    time.Time // the earliest time at which a list had to be left unread; zero: none was
}

func (p *progress) saw(t time.Time) {
	if t.After(p.newest) {
		p.newest = t
	}
}

// readRepository takes in what changed since the cursor: descriptions, acts and reviews, comments, inline comments. The
// cursor moves when all of it is committed.
func (in *inbound) readRepository(ctx context.Context, me identity, at target, cursor time.Time) error {
	p := progress{newest: cursor}
	since := cursor.Add(-overlap)
	for _, read := range []func(context.Context, identity, target, time.Time, *progress) error{in.readIssues, in.readComments, in.readInline} {
		if err := read(ctx, me, at, since, &p); err != nil {
			return err
		}
	}
	if !p.cut.IsZero() && p.cut.Before(p.newest) {
		p.newest = p.cut
	}
	if !p.newest.After(cursor) {
		return nil
	}
	failpoint.Hit("github.cursor.before")
	err := in.Store.SetCursor(ctx, in.stream(me, repoScope(at)), position(p.newest))
	failpoint.Hit("github.cursor.after")
	return err
}

// again takes in what was read: as new, or, where the log has it already, as an edit. What was read in the same state
// before is left out.
func (in *inbound) again(ctx context.Context, s said, me identity) error {
	key := s.at.full() + " " + strconv.Itoa(s.at.Number) + " " + messageID(s.kind, s.id)
	in.mu.Lock()
	when, known := in.taken[key]
	in.mu.Unlock()
	if known && when.Equal(s.updated) {
		return nil
	}
	s.change = adapters.Created
	if err := in.joined(ctx, s, me); err != nil {
		return err
	}
	receipt, err := in.receive(ctx, s, me)
	if err != nil {
		return err
	}
	if receipt.Decision == adapters.Repeated && s.updated.After(s.created) {
		s.change = adapters.Edited
		if _, err := in.receive(ctx, s, me); err != nil {
			return err
		}
	}
	const most = 20_000
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.taken) > most {
		clear(in.taken)
	}
	in.taken[key] = s.updated
	return nil
}

// joined reads the past of a conversation that mikan takes part in, if that was not done when it was called in: what was
// said before would else look like a follow-up.
func (in *inbound) joined(ctx context.Context, s said, me identity) error {
	m, ok, err := in.message(s, me)
	if err != nil || !ok || m.Addressed != adapters.FollowUp && m.Addressed != adapters.Reply {
		return nil
	}
	key, err := m.Address.Key()
	if err != nil {
		return nil
	}
	takes, err := in.Store.TakesPart(ctx, string(key), m.SessionKey)
	if err != nil || !takes {
		return err
	}
	return in.join(ctx, me, s.at)
}

// pages reads a list, page by page.
func (in *inbound) pages(ctx context.Context, p *progress, read func(context.Context, sdk.ListOptions) (*sdk.Response, time.Time, error)) error {
	options := sdk.ListOptions{PerPage: perPage, Page: 1}
	for n := 0; ; n++ {
		var answer *sdk.Response
		var last time.Time
		err := in.call(ctx, "list", reading, rate.Final, func(ctx context.Context) error {
			var err error
			answer, last, err = read(ctx, options)
			return err
		})
		if err != nil {
			return err
		}
		if answer.NextPage == 0 {
			return nil
		}
		if n+1 == mostPages {
			if p.cut.IsZero() || last.Before(p.cut) {
				p.cut = last
			}
			return nil
		}
		options.Page = answer.NextPage
	}
}

func (in *inbound) readIssues(ctx context.Context, me identity, at target, since time.Time, p *progress) error {
	var changed []*sdk.Issue
	err := in.pages(ctx, p, func(ctx context.Context, o sdk.ListOptions) (*sdk.Response, time.Time, error) {
		some, answer, err := in.api.Issues.ListByRepo(ctx, at.Owner, at.Repo, &sdk.IssueListByRepoOptions{State: "all", Sort: "updated", Direction: "asc", Since: since, ListOptions: o})
		changed = append(changed, some...)
		return answer, lastUpdate(some), err
	})
	if err != nil {
		return err
	}
	repo := repository(at)
	for _, i := range changed {
		s := ofIssue(repo, i)
		if err := in.again(ctx, s, me); err != nil {
			return err
		}
		if err := in.readActs(ctx, me, s, since); err != nil {
			return err
		}
		p.saw(s.updated)
	}
	return nil
}

func lastUpdate(all []*sdk.Issue) time.Time {
	if len(all) == 0 {
		return time.Time{}
	}
	return all[len(all)-1].GetUpdatedAt().Time
}

func repository(at target) *sdk.Repository {
	return &sdk.Repository{Name: &at.Repo, Owner: &sdk.User{Login: &at.Owner}}
}

// settling is how long the webhook of an act has to come in first.
const settling = 10 * time.Second

// readActs takes in what was done to an issue or pull request since: assignments and requests to mikan, and reviews.
func (in *inbound) readActs(ctx context.Context, me identity, issue said, since time.Time) error {
	key := issue.at.full() + " " + strconv.Itoa(issue.at.Number) + " acts"
	in.mu.Lock()
	when, known := in.taken[key]
	in.mu.Unlock()
	if known && when.Equal(issue.updated) {
		return nil
	}
	events, err := in.tailOfTimeline(ctx, issue.at, since)
	if err != nil {
		return err
	}
	reviewed, early := false, false
	for _, e := range events {
		var subject *sdk.User
		k := kindAssigned
		switch e.GetEvent() {
		case "assigned":
			subject = e.GetAssignee()
		case "review_requested":
			k, subject = kindRequested, e.GetReviewer()
		case "reviewed":
			reviewed = reviewed || !e.GetSubmittedAt().Before(since)
			continue
		default:
			continue
		}
		done := e.GetCreatedAt().Time
		if done.Before(since) || lower(subject) != me.login {
			continue
		}
		if time.Since(done) < settling {
			early = true
			continue
		}
		if _, err := in.receive(ctx, act(issue, k, e.GetActor(), subject, done), me); err != nil {
			return err
		}
	}
	if reviewed {
		if err := in.readReviews(ctx, me, issue, since); err != nil {
			return err
		}
	}
	if !early {
		in.mu.Lock()
		in.taken[key] = issue.updated
		in.mu.Unlock()
	}
	return nil
}

// tailOfTimeline reads a timeline from its end back to a time. GitHub has no filter for that.
func (in *inbound) tailOfTimeline(ctx context.Context, at target, since time.Time) ([]*sdk.Timeline, error) {
	return tail(ctx, in.Adapter, func(ctx context.Context, o *sdk.ListOptions) ([]*sdk.Timeline, *sdk.Response, error) {
		return in.api.Issues.ListIssueTimeline(ctx, at.Owner, at.Repo, at.Number, o)
	}, func(page []*sdk.Timeline) bool {
		return len(page) > 0 && !page[0].GetCreatedAt().IsZero() && page[0].GetCreatedAt().Before(since)
	})
}

// tailPages is how many pages are read back from the end of a list.
const tailPages = 5

// tail reads the last pages of a list that GitHub sorts from old to new, until enough holds for the page read last.
func tail[T any](ctx context.Context, a *Adapter, list func(context.Context, *sdk.ListOptions) ([]T, *sdk.Response, error), enough func([]T) bool) ([]T, error) {
	fetch := func(n int) (page []T, answer *sdk.Response, err error) {
		err = a.call(ctx, "tail", reading, rate.Final, func(ctx context.Context) error {
			page, answer, err = list(ctx, &sdk.ListOptions{PerPage: perPage, Page: n})
			return err
		})
		return page, answer, err
	}
	first, answer, err := fetch(1)
	if err != nil || answer.LastPage <= 1 {
		return first, err
	}
	var all []T
	for n := answer.LastPage; n > max(answer.LastPage-tailPages, 1); n-- {
		page, _, err := fetch(n)
		if err != nil {
			return nil, err
		}
		all = append(page, all...)
		if enough(page) {
			return all, nil
		}
	}
	if answer.LastPage <= tailPages {
		all = append(first, all...)
	}
	return all, nil
}

func (in *inbound) readReviews(ctx context.Context, me identity, issue said, since time.Time) error {
	reviews, err := in.reviewsOf(ctx, issue.at, since)
	if err != nil {
		return err
	}
	for _, r := range reviews {
		s := ofReview(repository(issue.at), issue.at.Number, r)
		if s.created.Before(since) {
			continue
		}
		s.opener, s.opened = issue.opener, issue.opened
		if err := in.again(ctx, s, me); err != nil {
			return err
		}
	}
	return nil
}

func (a *Adapter) reviewsOf(ctx context.Context, at target, since time.Time) ([]*sdk.PullRequestReview, error) {
	return tail(ctx, a, func(ctx context.Context, o *sdk.ListOptions) ([]*sdk.PullRequestReview, *sdk.Response, error) {
		return a.api.PullRequests.ListReviews(ctx, at.Owner, at.Repo, at.Number, o)
	}, func(page []*sdk.PullRequestReview) bool {
		return len(page) > 0 && page[0].GetSubmittedAt().Before(since)
	})
}

func (in *inbound) readComments(ctx context.Context, me identity, at target, since time.Time, p *progress) error {
	repo := repository(at)
	return in.pages(ctx, p, func(ctx context.Context, o sdk.ListOptions) (*sdk.Response, time.Time, error) {
		sort, direction := "updated", "asc"
		some, answer, err := in.api.Issues.ListComments(ctx, at.Owner, at.Repo, 0, &sdk.IssueListCommentsOptions{Sort: &sort, Direction: &direction, Since: &since, ListOptions: o})
		var last time.Time
		for _, c := range some {
			s := ofComment(repo, numberIn(c.GetIssueURL()), c)
			// Of the issue itself a comment tells its address only.
			s.at.Pull = strings.Contains(c.GetHTMLURL(), "/pull/")
			if err := in.again(ctx, s, me); err != nil {
				return answer, last, err
			}
			last = s.updated
			p.saw(last)
		}
		return answer, last, err
	})
}

func (in *inbound) readInline(ctx context.Context, me identity, at target, since time.Time, p *progress) error {
	repo := repository(at)
	return in.pages(ctx, p, func(ctx context.Context, o sdk.ListOptions) (*sdk.Response, time.Time, error) {
		some, answer, err := in.api.PullRequests.ListComments(ctx, at.Owner, at.Repo, 0, &sdk.PullRequestListCommentsOptions{Sort: "updated", Direction: "asc", Since: since, ListOptions: o})
		var last time.Time
		for _, c := range some {
			s := ofInline(repo, numberIn(c.GetPullRequestURL()), c)
			if err := in.again(ctx, s, me); err != nil {
				return answer, last, err
			}
			last = s.updated
			p.saw(last)
		}
		return answer, last, err
	})
}

// numberIn is the number at the end of an address like https://api.github.com/repos/o/r/issues/5; 0 when there is none.
func numberIn(address string) int {
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, '/')+1:])
	if err != nil {
		return 0
	}
	return n
}
