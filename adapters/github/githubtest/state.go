package githubtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// UserType is what an account is.
type UserType string

// The types.
const (
	Person       UserType = "User"
	Bot          UserType = "Bot"
	Organization UserType = "Organization"
)

type user struct {
	login string
	id    int64
	kind  UserType
}

type token struct {
	login  string
	levels map[Permission]Level
	repos  []string // lower-case owner/name; empty: all that the account sees
}

type repo struct {
	id          int64
	owner, name string
	private     bool
	permissions map[string]string // login → admin, write, read
	past        map[string]bool   // logins that have contributed before
	issues      map[int64]*issue
	lastNumber  int64
	branches    map[string]string // name → sha
	commits     map[string]commit
	trees       map[string]map[string]string // sha → path → content
	checks      map[string][]Check
	statuses    map[string][]Status
}

func (r *repo) full() string { return r.owner + "/" + r.name }

type issue struct {
	id        int64
	number    int64
	title     string
	body      string
	author    string
	state     string
	locked    bool
	gone      bool
	labels    []string
	assignees []string
	createdAt time.Time
	updatedAt time.Time
	comments  []*comment
	events    []event
	reactions []reacted
	pull      *pull
}

type pull struct {
	head, base string
	reviewers  []string
	reviews    []*review
	inline     []*comment
	files      []File
}

// comment is an issue comment or, with a path, an inline review comment.
type comment struct {
	id        int64
	author    string
	body      string
	createdAt time.Time
	updatedAt time.Time
	reactions []reacted
	path      string
	line      int
	hunk      string
	replyTo   int64
	reviewID  int64
}

type review struct {
	id          int64
	author      string
	body        string
	state       string
	submittedAt time.Time
}

type event struct {
	id        int64
	kind      string
	actor     string
	subject   string
	createdAt time.Time
}

type reacted struct {
	id      int64
	login   string
	content string
	at      time.Time
}

type commit struct {
	message string
	tree    string
	parents []string
}

// File is a changed file of a pull request.
type File struct {
	Path  string `json:"path"`
	Patch string `json:"patch"`
}

// Check is a check run on a commit.
type Check struct {
	Name       string `json:"name"`
	Status     string `json:"status"`     // queued, in_progress, completed
	Conclusion string `json:"conclusion"` // success, failure, …
	Summary    string `json:"summary"`
}

// Status is a commit status.
type Status struct {
	Context     string `json:"context"`
	State       string `json:"state"` // success, failure, pending, error
	Description string `json:"description"`
}

type object = map[string]any

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (s *Server) userJSON(login string) any {
	u, ok := s.users[strings.ToLower(login)]
	if !ok {
		return nil // a deleted account
	}
	return object{
		"login": u.login, "id": u.id, "node_id": fmt.Sprintf("U_%d", u.id), "type": string(u.kind), "site_admin": false,
		"url": s.URL + "/users/" + u.login, "html_url": "https://github.com/" + u.login,
	}
}

func (s *Server) repoJSON(r *repo) object {
	return object{
		"id": r.id, "node_id": fmt.Sprintf("R_%d", r.id), "name": r.name, "full_name": r.full(), "private": r.private,
		"owner": s.userJSON(r.owner), "html_url": "https://github.com/" + r.full(), "url": s.URL + "/repos/" + r.full(), "default_branch": "main",
	}
}

// association is what GitHub says of an author: https://docs.github.com/en/graphql/reference/enums#commentauthorassociation
func (r *repo) association(login string) string {
	switch {
	case strings.EqualFold(r.owner, login):
		return "OWNER"
	case r.permissions[strings.ToLower(login)] != "":
		return "COLLABORATOR"
	case r.past[strings.ToLower(login)]:
		return "CONTRIBUTOR"
	}
	return "NONE"
}

func (s *Server) issueJSON(r *repo, i *issue) object {
	labels := []object{}
	for _, l := range i.labels {
		labels = append(labels, object{"name": l})
	}
	assignees := []any{}
	for _, a := range i.assignees {
		assignees = append(assignees, s.userJSON(a))
	}
	o := object{
		"id": i.id, "node_id": fmt.Sprintf("I_%d", i.id), "number": i.number, "title": i.title, "body": nullable(i.body), "state": i.state,
		"locked": i.locked, "user": s.userJSON(i.author), "labels": labels, "assignees": assignees, "comments": len(i.comments),
		"created_at": stamp(i.createdAt), "updated_at": stamp(i.updatedAt), "author_association": r.association(i.author),
		"html_url": i.html(r), "url": fmt.Sprintf("%s/repos/%s/issues/%d", s.URL, r.full(), i.number),
	}
	if i.pull != nil {
		o["pull_request"] = object{"url": fmt.Sprintf("%s/repos/%s/pulls/%d", s.URL, r.full(), i.number), "html_url": i.html(r)}
	}
	return o
}

func (i *issue) html(r *repo) string {
	kind := "issues"
	if i.pull != nil {
		kind = "pull"
	}
	return fmt.Sprintf("https://github.com/%s/%s/%d", r.full(), kind, i.number)
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (s *Server) pullJSON(r *repo, i *issue) object {
	reviewers := []any{}
	for _, l := range i.pull.reviewers {
		reviewers = append(reviewers, s.userJSON(l))
	}
	o := s.issueJSON(r, i)
	delete(o, "pull_request")
	o["url"] = fmt.Sprintf("%s/repos/%s/pulls/%d", s.URL, r.full(), i.number)
	o["head"] = object{"ref": i.pull.head, "sha": r.branches[i.pull.head], "repo": s.repoJSON(r)}
	o["base"] = object{"ref": i.pull.base, "sha": r.branches[i.pull.base], "repo": s.repoJSON(r)}
	o["requested_reviewers"] = reviewers
	o["draft"], o["merged"] = false, false
	return o
}

func (s *Server) commentJSON(r *repo, i *issue, c *comment) object {
	return object{
		"id": c.id, "node_id": fmt.Sprintf("IC_%d", c.id), "body": c.body, "user": s.userJSON(c.author),
		"created_at": stamp(c.createdAt), "updated_at": stamp(c.updatedAt), "author_association": r.association(c.author),
		"url": fmt.Sprintf("%s/repos/%s/issues/comments/%d", s.URL, r.full(), c.id), "html_url": fmt.Sprintf("%s#issuecomment-%d", i.html(r), c.id),
		"issue_url": fmt.Sprintf("%s/repos/%s/issues/%d", s.URL, r.full(), i.number),
	}
}

func (s *Server) inlineJSON(r *repo, i *issue, c *comment) object {
	o := object{
		"id": c.id, "node_id": fmt.Sprintf("PRRC_%d", c.id), "body": c.body, "user": s.userJSON(c.author), "path": c.path, "line": c.line,
		"side": "RIGHT", "diff_hunk": c.hunk, "commit_id": r.branches[i.pull.head], "pull_request_review_id": c.reviewID,
		"created_at": stamp(c.createdAt), "updated_at": stamp(c.updatedAt), "author_association": r.association(c.author),
		"url":              fmt.Sprintf("%s/repos/%s/pulls/comments/%d", s.URL, r.full(), c.id),
		"html_url":         fmt.Sprintf("%s#discussion_r%d", i.html(r), c.id),
		"pull_request_url": fmt.Sprintf("%s/repos/%s/pulls/%d", s.URL, r.full(), i.number),
	}
	if c.replyTo != 0 {
		o["in_reply_to_id"] = c.replyTo
	}
	return o
}

// reviewJSON spells a state as the REST API does; webhooks spell it in lower case.
func (s *Server) reviewJSON(r *repo, i *issue, v *review) object {
	return object{
		"id": v.id, "node_id": fmt.Sprintf("PRR_%d", v.id), "body": nullable(v.body), "user": s.userJSON(v.author), "state": strings.ToUpper(v.state),
		"submitted_at": stamp(v.submittedAt), "author_association": r.association(v.author), "html_url": fmt.Sprintf("%s#pullrequestreview-%d", i.html(r), v.id),
		"pull_request_url": fmt.Sprintf("%s/repos/%s/pulls/%d", s.URL, r.full(), i.number),
	}
}

func (r *repo) sortedIssues() []*issue {
	all := []*issue{}
	for _, i := range r.issues {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *issue) int { return int(a.number - b.number) })
	return all
}
