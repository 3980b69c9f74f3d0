package githubtest

import (
	"net/http"
	"slices"
	"strings"
)

// pullIssue is the pull request that the path names; nil when there is none.
func (c *call) pullIssue() *issue {
	if i := c.issue(); i != nil && i.pull != nil {
		return i
	}
	return nil
}

func (c *call) getPull() reply {
	i := c.pullIssue()
	if i == nil {
		return notFound()
	}
	return ok(c.s.pullJSON(c.repo, i))
}

func (c *call) listPulls() reply {
	all := slices.DeleteFunc(c.repo.sortedIssues(), func(i *issue) bool {
		if i.pull == nil {
			return true
		}
		_, branch, _ := strings.Cut(c.query["head"], ":")
		state := c.query["state"]
		return c.query["head"] != "" && i.pull.head != branch || c.query["base"] != "" && i.pull.base != c.query["base"] ||
			state != "all" && i.state != max(state, "open")
	})
	return page(c, all, func(i *issue) object { return c.s.pullJSON(c.repo, i) })
}

func (c *call) createPull() reply {
	head := strings.TrimPrefix(c.text("head"), c.repo.owner+":")
	base := c.text("base")
	if _, is := c.repo.branches[head]; !is {
		return invalid("PullRequest", "head", "invalid")
	}
	if _, is := c.repo.branches[base]; !is {
		return invalid("PullRequest", "base", "invalid")
	}
	for _, i := range c.repo.issues {
		if i.pull != nil && i.state == "open" && i.pull.head == head && i.pull.base == base {
			return invalid("PullRequest", "", "custom", "A pull request already exists for "+c.repo.owner+":"+head+".")
		}
	}
	if c.repo.branches[head] == c.repo.branches[base] {
		return invalid("PullRequest", "", "custom", "No commits between "+base+" and "+head)
	}
	i := c.s.newIssue(c.repo, c.login, c.text("title"), c.text("body"))
	i.pull = &pull{head: head, base: base}
	c.send("pull_request", "opened", object{"number": i.number, "pull_request": c.s.pullJSON(c.repo, i)})
	return created(c.s.pullJSON(c.repo, i))
}

func (c *call) listFiles() reply {
	i := c.pullIssue()
	if i == nil {
		return notFound()
	}
	return page(c, i.pull.files, func(f File) object {
		return object{"filename": f.Path, "status": "modified", "patch": f.Patch, "additions": strings.Count(f.Patch, "\n+"),
			"deletions": strings.Count(f.Patch, "\n-"), "changes": strings.Count(f.Patch, "\n+") + strings.Count(f.Patch, "\n-")}
	})
}

func (c *call) listReviews() reply {
	i := c.pullIssue()
	if i == nil {
		return notFound()
	}
	return page(c, i.pull.reviews, func(v *review) object { return c.s.reviewJSON(c.repo, i, v) })
}

func (c *call) getReview() reply {
	i := c.pullIssue()
	if i == nil {
		return notFound()
	}
	for _, v := range i.pull.reviews {
		if v.id == c.number("id") {
			return ok(c.s.reviewJSON(c.repo, i, v))
		}
	}
	return notFound()
}

// newInline makes an inline comment, which belongs to a review of its own as GitHub's do.
func (s *Server) newInline(i *issue, login, body string, root *comment) *comment {
	now := s.clock()
	v := &review{id: s.id(), author: login, state: "commented", submittedAt: now}
	i.pull.reviews = append(i.pull.reviews, v)
	m := &comment{id: s.id(), author: login, body: body, createdAt: now, updatedAt: now, reviewID: v.id, path: root.path, line: root.line, hunk: root.hunk, replyTo: root.id}
	i.pull.inline = append(i.pull.inline, m)
	i.updatedAt = now
	return m
}

func (s *Server) newIssue(r *repo, login, title, body string) *issue {
	now := s.clock()
	r.lastNumber++
	i := &issue{id: s.id(), number: r.lastNumber, title: title, body: body, author: login, state: "open", createdAt: now, updatedAt: now}
	r.issues[i.number] = i
	return i
}

func (s *Server) newComment(i *issue, login, body string) *comment {
	now := s.clock()
	m := &comment{id: s.id(), author: login, body: body, createdAt: now, updatedAt: now}
	i.comments = append(i.comments, m)
	i.updatedAt = now
	return m
}

// asset serves a picture of a comment; those of private repositories are for those who may see it.
func (c *call) asset() reply {
	content, is := c.s.assets[c.values["name"]]
	if !is {
		return notFound()
	}
	return reply{status: http.StatusOK, body: content, header: map[string]string{"Content-Type": "application/octet-stream"}}
}

func (s *Server) event(i *issue, kind, actor, subject string) event {
	now := s.clock()
	e := event{id: s.id(), kind: kind, actor: actor, subject: subject, createdAt: now}
	i.events = append(i.events, e)
	i.updatedAt = now
	return e
}
