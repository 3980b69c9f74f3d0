package githubtest

import (
	"net/http"
	"slices"
	"time"
)

// thread is where comments of an issue stand: below it, or beside the lines of a pull request's files. Both have the same
// routes and webhooks under other names.
type thread struct {
	event   string // of the webhooks
	subject string // what webhooks call what is commented on
	// list is nil where an issue can have none.
	list    func(*issue) *[]*comment
	comment func(*Server, *repo, *issue, *comment) object
	about   func(*Server, *repo, *issue) object
}

var (
	plain = thread{
		event: "issue_comment", subject: "issue", list: func(i *issue) *[]*comment { return &i.comments },
		comment: (*Server).commentJSON, about: (*Server).issueJSON,
	}
	inline = thread{
		event: "pull_request_review_comment", subject: "pull_request",
		list: func(i *issue) *[]*comment {
			if i.pull == nil {
				return nil
			}
			return &i.pull.inline
		},
		comment: (*Server).inlineJSON, about: (*Server).pullJSON,
	}
)

// comments are those of an issue.
func (th thread) comments(i *issue) []*comment {
	if list := th.list(i); list != nil {
		return *list
	}
	return nil
}

// find looks a comment up; both results are nil when there is none.
func (th thread) find(r *repo, id int64) (*issue, *comment) {
	for _, i := range r.issues {
		for _, m := range th.comments(i) {
			if m.id == id {
				return i, m
			}
		}
	}
	return nil, nil
}

func (th thread) remove(i *issue, m *comment) {
	list := th.list(i)
	*list = slices.DeleteFunc(*list, func(x *comment) bool { return x == m })
}

// payload is what a webhook tells of a comment.
func (th thread) payload(s *Server, r *repo, i *issue, m *comment) object {
	return object{th.subject: th.about(s, r, i), "comment": th.comment(s, r, i, m)}
}

// webhooks makes the deliveries of what somebody did to a comment.
func (th thread) webhooks(s *Server, r *repo, login, action string, i *issue, m *comment) []func() {
	return s.webhooks(r, login, th.event, action, th.payload(s, r, i, m))
}

func (th thread) send(c *call, action string, i *issue, m *comment) {
	c.send(th.event, action, th.payload(c.s, c.repo, i, m))
}

func updatedAt(c *comment) time.Time { return c.updatedAt }
func createdAt(c *comment) time.Time { return c.createdAt }

func (th thread) listOfIssue(c *call) reply {
	i := c.issue()
	if i == nil || th.list(i) == nil {
		return notFound()
	}
	return page(c, since(c, th.comments(i), updatedAt, createdAt), func(m *comment) object { return th.comment(c.s, c.repo, i, m) })
}

func (th thread) listOfRepo(c *call) reply {
	all := []*comment{}
	of := map[*comment]*issue{}
	for _, i := range c.repo.sortedIssues() {
		for _, m := range th.comments(i) {
			all, of[m] = append(all, m), i
		}
	}
	return page(c, since(c, all, updatedAt, createdAt), func(m *comment) object { return th.comment(c.s, c.repo, of[m], m) })
}

func (th thread) get(c *call) reply {
	i, m := th.find(c.repo, c.number("id"))
	if m == nil {
		return notFound()
	}
	return ok(th.comment(c.s, c.repo, i, m))
}

// created answers for a comment that was just made.
func (th thread) created(c *call, i *issue, m *comment) reply {
	th.send(c, "created", i, m)
	return created(th.comment(c.s, c.repo, i, m))
}

// own finds the comment that a route changes, and refuses who may not.
func (th thread) own(c *call) (i *issue, m *comment, refused reply) {
	i, m = th.find(c.repo, c.number("id"))
	switch {
	case m == nil:
		return nil, nil, notFound()
	case !c.mayChange(m.author):
		return nil, nil, refusal(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	return i, m, reply{}
}

func (th thread) edit(c *call) reply {
	i, m, refused := th.own(c)
	if m == nil {
		return refused
	}
	m.body, m.updatedAt = c.text("body"), c.s.clock()
	th.send(c, "edited", i, m)
	return ok(th.comment(c.s, c.repo, i, m))
}

func (th thread) delete(c *call) reply {
	i, m, refused := th.own(c)
	if m == nil {
		return refused
	}
	th.remove(i, m)
	th.send(c, "deleted", i, m)
	return noContent()
}

// writable tells why nothing can be written to an issue.
func (c *call) writable(i *issue) (reply, bool) {
	switch {
	case i == nil:
		return notFound(), false
	case i.gone:
		return refusal(http.StatusGone, "This issue was deleted"), false
	case i.locked && !c.mayChange(""):
		return refusal(http.StatusForbidden, "Unable to create comment because issue is locked."), false
	}
	return reply{}, true
}

func (c *call) createComment() reply {
	i := c.issue()
	if answer, may := c.writable(i); !may {
		return answer
	}
	return plain.created(c, i, c.s.newComment(i, c.login, c.text("body")))
}

// replyInline takes answers to the first comment of a thread only: GitHub refuses replies to replies.
func (c *call) replyInline() reply {
	i := c.pullIssue()
	if answer, may := c.writable(i); !may {
		return answer
	}
	to, _ := c.body["in_reply_to"].(float64)
	_, root := inline.find(c.repo, int64(to))
	if root == nil || !slices.Contains(i.pull.inline, root) || root.replyTo != 0 {
		return invalid("PullRequestReviewComment", "in_reply_to", "invalid")
	}
	return inline.created(c, i, c.s.newInline(i, c.login, c.text("body"), root))
}
