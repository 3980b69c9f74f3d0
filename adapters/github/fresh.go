package github

import (
	"context"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
)

// Old news is a delivery that is sent again, hours or days later: what it says may have been edited or deleted since.
const (
	oldNews     = 2 * time.Minute
	renewWithin = 2 * time.Second
)

// renew looks up how something stands now when the news of it is old. Where GitHub cannot be asked, the news counts.
func (in *inbound) renew(ctx context.Context, s said) said {
	if s.change == adapters.Deleted || s.updated.IsZero() || time.Since(s.updated) < oldNews {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	body, err := in.bodyNow(ctx, s)
	switch {
	case err == nil:
		s.body = body
	case fault.CodeOf(err) == fault.NotFound:
		s.change = adapters.Deleted
	}
	return s
}

func (in *inbound) bodyNow(ctx context.Context, s said) (body string, err error) {
	at := s.at
	err = in.call(ctx, "renew", reading, rate.Final, func(ctx context.Context) error {
		switch s.kind {
		case kindComment:
			var c *sdk.IssueComment
			c, _, err = in.api.Issues.GetComment(ctx, at.Owner, at.Repo, s.id)
			body = c.GetBody()
		case kindInline:
			var c *sdk.PullRequestComment
			c, _, err = in.api.PullRequests.GetComment(ctx, at.Owner, at.Repo, s.id)
			body = c.GetBody()
		case kindReview:
			var r *sdk.PullRequestReview
			r, _, err = in.api.PullRequests.GetReview(ctx, at.Owner, at.Repo, at.Number, s.id)
			body = r.GetBody()
		case kindIssue:
			var i *sdk.Issue
			i, _, err = in.api.Issues.Get(ctx, at.Owner, at.Repo, at.Number)
			body = i.GetBody()
		default:
			body, err = s.body, nil
		}
		return err
	})
	return body, err
}
