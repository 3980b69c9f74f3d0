package githubtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AddUser makes an account.
func (s *Server) AddUser(login string, kind UserType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[strings.ToLower(login)] = &user{login: login, id: s.id(), kind: kind}
}

// Visibility of a repository.
type Visibility string

// The visibilities.
const (
	PublicRepo  Visibility = "public"
	PrivateRepo Visibility = "private"
)

// AddRepo makes a repository with a branch main that has a README. The owner is made when there is none.
func (s *Server) AddRepo(owner, name string, v Visibility) {
	s.mu.Lock()
	known := s.users[strings.ToLower(owner)] != nil
	s.mu.Unlock()
	if !known {
		s.AddUser(owner, Organization)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &repo{
		id: s.id(), owner: owner, name: name, private: v == PrivateRepo, permissions: map[string]string{}, past: map[string]bool{}, issues: map[int64]*issue{},
		branches: map[string]string{}, commits: map[string]commit{}, trees: map[string]map[string]string{}, checks: map[string][]Check{}, statuses: map[string][]Status{},
	}
	r.put("main", "Begin", map[string]string{"README.md": "# " + name + "\n"})
	s.repos[strings.ToLower(r.full())] = r
}

// Permit gives an account a role in a repository: admin, maintain, write, triage, read; "" takes it away.
func (s *Server) Permit(repo, login, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repo(repo).permissions[strings.ToLower(login)] = role
}

// Contributed notes that an account has contributed to a repository before, without any role in it.
func (s *Server) Contributed(repo, login string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repo(repo).past[strings.ToLower(login)] = true
}

// AddToken makes a fine-grained token for repositories; none listed means all that the account sees.
func (s *Server) AddToken(secret, login string, levels map[Permission]Level, repos ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range repos {
		repos[i] = strings.ToLower(r)
	}
	s.tokens[secret] = &token{login: login, levels: levels, repos: repos}
}

// RevokeToken makes a token unknown.
func (s *Server) RevokeToken(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, secret)
}

// FullLevels are the permissions that mikan's documentation asks for.
func FullLevels() map[Permission]Level {
	return map[Permission]Level{Metadata: Read, Issues: Write, PullRequests: Write, Contents: Write, Checks: Read, Statuses: Read, Webhooks: Write, OrgWebhooks: Write}
}

// HookForm is how a webhook's payload is sent.
type HookForm string

// The forms.
const (
	JSONHook HookForm = "json"
	FormHook HookForm = "form"
)

// AddHook makes a webhook of a repository (owner/name) or of an organisation, and pings it. No events means all.
func (s *Server) AddHook(target, url, secret string, form HookForm, events ...string) int64 {
	s.mu.Lock()
	h := &hook{id: s.id(), target: strings.ToLower(target), url: url, secret: secret, events: events, form: form == FormHook}
	s.hooks = append(s.hooks, h)
	d := s.newDelivery(h, "ping", "", fmt.Appendf(nil, `{"zen":"Keep it logically awesome.","hook_id":%d,"hook":{"id":%d,"active":true}}`, h.id, h.id))
	s.mu.Unlock()
	s.deliver(h, d)
	return h.id
}

// LoseDeliveries keeps the next n webhooks of every hook from arriving.
func (s *Server) LoseDeliveries(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks {
		h.skip = n
	}
}

// AddAsset stores a picture at /user-attachments/assets/name.
func (s *Server) AddAsset(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assets[name] = content
}

// Push commits files to a branch and returns the commit.
func (s *Server) Push(repo, branch, message string, files map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repo(repo).put(branch, message, files)
}

// File is a file of a branch.
func (s *Server) File(repo, branch, path string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repo(repo)
	content, is := r.trees[r.commits[r.branches[branch]].tree][path]
	return content, is
}

// SetChecks says how a commit's checks and statuses are.
func (s *Server) SetChecks(repo, sha string, checks []Check, statuses []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repo(repo)
	r.checks[sha], r.statuses[sha] = checks, statuses
}

// repo panics for an unknown one: a test names what it made.
func (s *Server) repo(full string) *repo {
	r := s.repos[strings.ToLower(full)]
	if r == nil {
		panic("there is no repository " + full)
	}
	return r
}

func (s *Server) at(full string, number int64) (*repo, *issue) {
	r := s.repo(full)
	i := r.issues[number]
	if i == nil {
		panic(fmt.Sprintf("there is no issue %s#%d", full, number))
	}
	return r, i
}

// act changes something under the lock, and sends its webhooks outside of it.
func (s *Server) act(change func() []func()) {
	s.mu.Lock()
	emit := change()
	s.mu.Unlock()
	sendAll(emit)
}

// OpenIssue opens an issue and returns its number.
func (s *Server) OpenIssue(repo, login, title, body string, assignees ...string) (number int64) {
	s.act(func() []func() {
		r := s.repo(repo)
		i := s.newIssue(r, login, title, body)
		i.assignees, number = assignees, i.number
		emit := s.webhooks(r, login, "issues", "opened", object{"issue": s.issueJSON(r, i)})
		for _, a := range assignees {
			s.event(i, "assigned", login, a)
			emit = append(emit, s.webhooks(r, login, "issues", "assigned", object{"issue": s.issueJSON(r, i), "assignee": s.userJSON(a)})...)
		}
		return emit
	})
	return number
}

// OpenPull opens a pull request of a branch that is made with the files.
func (s *Server) OpenPull(repo, login, title, body, branch string, files ...File) (number int64) {
	s.act(func() []func() {
		r := s.repo(repo)
		content := map[string]string{}
		for _, f := range files {
			content[f.Path] = f.Patch
		}
		r.put(branch, title, content)
		i := s.newIssue(r, login, title, body)
		i.pull = &pull{head: branch, base: "main", files: files}
		number = i.number
		return s.webhooks(r, login, "pull_request", "opened", object{"number": i.number, "pull_request": s.pullJSON(r, i)})
	})
	return number
}

// EditIssue changes the body of an issue or pull request.
func (s *Server) EditIssue(repo string, number int64, login, body string) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		i.body, i.updatedAt = body, s.clock()
		if i.pull != nil {
			return s.webhooks(r, login, "pull_request", "edited", object{"number": number, "pull_request": s.pullJSON(r, i)})
		}
		return s.webhooks(r, login, "issues", "edited", object{"issue": s.issueJSON(r, i)})
	})
}

// Comment says something and returns the comment's id.
func (s *Server) Comment(repo string, number int64, login, body string) (id int64) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		m := s.newComment(i, login, body)
		id = m.id
		return plain.webhooks(s, r, login, "created", i, m)
	})
	return id
}

// EditComment changes what somebody said.
func (s *Server) EditComment(repo string, id int64, login, body string) {
	s.act(func() []func() {
		r := s.repo(repo)
		i, m := plain.find(r, id)
		m.body, m.updatedAt = body, s.clock()
		return plain.webhooks(s, r, login, "edited", i, m)
	})
}

// DeleteComment takes back what somebody said.
func (s *Server) DeleteComment(repo string, id int64, login string) {
	s.act(func() []func() {
		r := s.repo(repo)
		i, m := plain.find(r, id)
		plain.remove(i, m)
		return plain.webhooks(s, r, login, "deleted", i, m)
	})
}

// Assign assigns an issue or pull request to somebody.
func (s *Server) Assign(repo string, number int64, login, assignee string) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		i.assignees = append(i.assignees, assignee)
		s.event(i, "assigned", login, assignee)
		if i.pull != nil {
			return s.webhooks(r, login, "pull_request", "assigned", object{"number": number, "pull_request": s.pullJSON(r, i), "assignee": s.userJSON(assignee)})
		}
		return s.webhooks(r, login, "issues", "assigned", object{"issue": s.issueJSON(r, i), "assignee": s.userJSON(assignee)})
	})
}

// RequestReview asks somebody for a review.
func (s *Server) RequestReview(repo string, number int64, login, reviewer string) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		i.pull.reviewers = append(i.pull.reviewers, reviewer)
		s.event(i, "review_requested", login, reviewer)
		return s.webhooks(r, login, "pull_request", "review_requested", object{"number": number, "pull_request": s.pullJSON(r, i), "requested_reviewer": s.userJSON(reviewer)})
	})
}

// Inline is a comment on a line of a changed file.
type Inline struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Hunk string `json:"hunk"`
	Body string `json:"body"`
}

// Review submits a review (approved, changes_requested, commented) with inline comments, and returns their ids.
func (s *Server) Review(repo string, number int64, login, state, body string, lines ...Inline) (id int64, comments []int64) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		now := s.clock()
		v := &review{id: s.id(), author: login, body: body, state: state, submittedAt: now}
		i.pull.reviews, i.updatedAt, id = append(i.pull.reviews, v), now, v.id
		shown := s.reviewJSON(r, i, v)
		shown["state"] = state
		emit := s.webhooks(r, login, "pull_request_review", "submitted", object{"pull_request": s.pullJSON(r, i), "review": shown})
		for _, n := range lines {
			m := &comment{id: s.id(), author: login, body: n.Body, createdAt: now, updatedAt: now, reviewID: v.id, path: n.Path, line: n.Line, hunk: n.Hunk}
			i.pull.inline, comments = append(i.pull.inline, m), append(comments, m.id)
			emit = append(emit, inline.webhooks(s, r, login, "created", i, m)...)
		}
		return emit
	})
	return id, comments
}

// ReplyInline answers in an inline thread; to is the thread's first comment.
func (s *Server) ReplyInline(repo string, number, to int64, login, body string) (id int64) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		_, root := inline.find(r, to)
		m := s.newInline(i, login, body, root)
		id = m.id
		return inline.webhooks(s, r, login, "created", i, m)
	})
	return id
}

// Lock closes a conversation to all who may not write to the repository.
func (s *Server) Lock(repo string, number int64) {
	s.act(func() []func() {
		_, i := s.at(repo, number)
		i.locked = true
		return nil
	})
}

// DeleteIssue makes an issue answer 410.
func (s *Server) DeleteIssue(repo string, number int64, login string) {
	s.act(func() []func() {
		r, i := s.at(repo, number)
		i.gone = true
		return s.webhooks(r, login, "issues", "deleted", object{"issue": s.issueJSON(r, i)})
	})
}

// Redeliver sends the newest n deliveries of every hook again, as pressing the button does.
func (s *Server) Redeliver(n int) {
	s.act(func() []func() {
		var emit []func()
		for _, h := range s.hooks {
			for _, d := range h.deliveries[max(len(h.deliveries)-n, 0):] {
				again := s.again(h, d)
				emit = append(emit, func() { s.deliver(h, again) })
			}
		}
		return emit
	})
}

// Delivered tells how the newest delivery of the first hook went: GitHub's status, the gateway's status code.
func (s *Server) Delivered() (status string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hooks) == 0 || len(s.hooks[0].deliveries) == 0 {
		return "", 0
	}
	d := s.hooks[0].deliveries[len(s.hooks[0].deliveries)-1]
	return d.status, d.code
}

// Shown is a comment as a person sees it.
type Shown struct {
	ID        int64    `json:"id"`
	Author    string   `json:"author"`
	Body      string   `json:"body"`
	Thread    int64    `json:"thread,omitempty"` // first comment of the inline thread
	Reactions []string `json:"reactions,omitempty"`
}

// Visible lists an issue's comments, inline ones after the others; the description is the first, with the id 0.
func (s *Server) Visible(repo string, number int64) []Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, i := s.at(repo, number)
	signs := func(all []reacted) (names []string) {
		for _, r := range all {
			names = append(names, r.login+":"+r.content)
		}
		return names
	}
	all := []Shown{{Author: i.author, Body: i.body, Reactions: signs(i.reactions)}}
	for _, m := range i.comments {
		all = append(all, Shown{ID: m.id, Author: m.author, Body: m.body, Reactions: signs(m.reactions)})
	}
	for _, m := range inline.comments(i) {
		thread := m.replyTo
		if thread == 0 {
			thread = m.id
		}
		all = append(all, Shown{ID: m.id, Author: m.author, Body: m.body, Thread: thread, Reactions: signs(m.reactions)})
	}
	return all
}

// Pulls lists the numbers of a repository's pull requests, and Issues those of its issues.
func (s *Server) Pulls(repo string) (pulls []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.repo(repo).sortedIssues() {
		if i.pull != nil {
			pulls = append(pulls, i.number)
		}
	}
	return pulls
}

// State of an issue: its title, open or closed, and its labels.
func (s *Server) State(repo string, number int64) (title, state string, labels []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, i := s.at(repo, number)
	return i.title, i.state, slices.Clone(i.labels)
}

// Age makes all deliveries so much older.
func (s *Server) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hooks {
		for _, d := range h.deliveries {
			d.at = d.at.Add(-by)
		}
	}
}

// Newest is the number of a repository's newest issue or pull request.
func (s *Server) Newest(repo string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repo(repo).lastNumber
}

// Private hides a repository from everybody without a role in it.
func (s *Server) Private(repo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repo(repo).private = true
}
