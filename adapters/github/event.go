package github

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// said is one thing that somebody said or did, whichever way mikan heard of it: webhook, list or timeline.
type said struct {
	at     target
	kind   kind
	id     int64
	change adapters.Change

	author      *sdk.User
	association string // what GitHub says of the author; of acts it says nothing
	subject     string // who was assigned or asked for a review
	body        string
	title       string // of a description
	state       string // of a review
	created     time.Time
	updated     time.Time

	file string // of an inline comment
	line int
	hunk string

	opener string    // who opened the issue
	opened time.Time // and when
	bears  []string  // who is assigned, or asked for a review
}

func lower(u *sdk.User) string { return strings.ToLower(u.GetLogin()) }

// ghost is what GitHub shows in place of a deleted account.
const ghost = "ghost"

// authorOf tells who spoke.
func authorOf(u *sdk.User, me identity) adapters.Author {
	login := lower(u)
	switch {
	case login == "":
		return adapters.Author{ID: ghost, Name: ghost, Kind: store.AuthorHuman}
	case login == me.login:
		return adapters.Author{ID: login, Name: u.GetLogin(), Kind: store.AuthorMikan}
	case u.GetType() == "Bot" || strings.HasSuffix(login, "[bot]"):
		return adapters.Author{ID: login, Name: u.GetLogin(), Kind: store.AuthorBot}
	}
	return adapters.Author{ID: login, Name: u.GetLogin(), Kind: store.AuthorHuman}
}

// standingOf is what the event itself tells: who has nothing to do with the repository is refused without a call, for
// the others the permission decides. A missing association counts as none.
func standingOf(s said) adapters.Standing {
	if s.kind == kindAssigned || s.kind == kindRequested {
		return adapters.Unknown
	}
	switch s.association {
	case "OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR":
		return adapters.Unknown
	}
	return adapters.Stranger
}

// outside tells whether what somebody wrote must be marked as untrusted where it is quoted.
func outside(association string) bool {
	return association != "OWNER" && association != "MEMBER" && association != "COLLABORATOR"
}

// untrusted follows the name of who is outside of the project.
const untrusted = " (outside the project, untrusted)"

// addressed tells why something is meant for mikan: the first reason that holds and is switched on.
func addressed(s said, me identity, on func(config.GitHubTrigger) bool) adapters.Reason {
	author := authorOf(s.author, me)
	switch {
	case s.change == adapters.Deleted, author.Kind != store.AuthorHuman, author.ID == ghost:
		return adapters.NotAddressed
	case s.kind == kindAssigned && s.subject == me.login && on(config.OnAssignment):
		return adapters.Assignment
	case s.kind == kindRequested && s.subject == me.login && on(config.OnReviewRequest):
		return adapters.Review
	case s.kind == kindAssigned, s.kind == kindRequested:
		return adapters.NotAddressed
	case s.kind == kindIssue && s.change == adapters.Created && slices.Contains(s.bears, me.login) && (on(config.OnAssignment) || on(config.OnReviewRequest)):
		return adapters.NotAddressed // opening it for mikan is reported as an assignment or request, too: one run
	case on(config.OnMention) && mentions(s.body, me.login):
		return adapters.Mention
	case s.kind == kindIssue, s.change != adapters.Created, !on(config.OnFollowUp):
		return adapters.NotAddressed
	case s.opener == me.login:
		return adapters.Reply
	case standingOf(s) == adapters.Stranger:
		return adapters.NotAddressed // talk of strangers is context at most
	}
	return adapters.FollowUp
}

// message makes what was said a message. It is false for what there is nothing to keep of.
func (a *Adapter) message(s said, me identity) (adapters.Message, bool, error) {
	issue, err := office.NewIssue(s.at.Owner, s.at.Repo, int64(s.at.Number))
	if err != nil {
		return adapters.Message{}, false, err
	}
	key, err := session.GitHubKey(issue.ConversationID())
	if err != nil {
		return adapters.Message{}, false, err
	}
	m := adapters.Message{
		Address: issue.Address(), Installation: me.login, Issue: &issue, Audience: store.Shared,
		OfficeName: fmt.Sprintf("%s/%s#%d", s.at.Owner, s.at.Repo, s.at.Number), SessionKey: string(key), ID: messageID(s.kind, s.id),
		Author: authorOf(s.author, me), Standing: standingOf(s),
		Groups: []adapters.Group{{Kind: store.PrincipalRepository, ID: s.at.full()}},
		SentAt: s.created, Change: s.change, Addressed: addressed(s, me, a.on), Reply: adapters.ReplyOf(s.at),
	}
	if s.at.Thread != 0 {
		m.ThreadID = messageID(kindInline, s.at.Thread)
		if s.at.Thread != s.id {
			m.ReplyTo = m.ThreadID
		}
	}
	if s.change == adapters.Deleted {
		return m, true, nil
	}
	m.Text = textOf(s, me.login)
	if m.Author.Kind == store.AuthorHuman && m.Author.ID != ghost && s.kind != kindAssigned && s.kind != kindRequested {
		if outside(s.association) {
			m.Author.Name += untrusted
		} else {
			m.Attachments = a.attachments(s.body)
		}
	}
	return m, m.Text != "", nil
}

// attachments are the pictures and files of a text that are GitHub's own; others are left where they are.
func (a *Adapter) attachments(body string) []store.Attachment {
	var all []store.Attachment
	for _, address := range pictures(body) {
		u, ok := a.hosts.file(address)
		if !ok {
			continue
		}
		all = append(all, store.Attachment{Name: fileName(u.Path, len(all)+1), Source: address})
	}
	return all
}

// fileName is the last part of a path; GitHub's pictures have no other name, and none of their type.
func fileName(p string, n int) string {
	name := path.Base(p)
	if name == "." || name == "/" || len(name) > 100 {
		return fmt.Sprintf("file-%d", n)
	}
	return name
}

// textOf is what the model reads.
func textOf(s said, login string) string {
	body := withoutOwn(s.body, login)
	thing := "issue"
	if s.at.Pull {
		thing = "pull request"
	}
	switch s.kind {
	case kindAssigned:
		return "Assigned this " + thing + " to you." + elsewhere(s)
	case kindRequested:
		return "Requested your review of this pull request." + elsewhere(s)
	case kindIssue:
		return strings.TrimSpace(fmt.Sprintf("%s #%d: %s\n\n%s", strings.ToUpper(thing[:1])+thing[1:], s.at.Number, s.title, s.body))
	case kindReview:
		return reviewText(s.state, body)
	}
	switch {
	case strings.TrimSpace(body) == "":
		return ""
	case adapters.ParseWord(body) != adapters.NoWord:
		return body
	case s.kind == kindInline:
		return inlineText(s, body)
	}
	return body + elsewhere(s)
}

// fresh is how old a description may be to be shown with the recent talk.
const fresh = 13 * 24 * time.Hour

// elsewhere tells where the description is when it is too old to be part of the context.
func elsewhere(s said) string {
	if s.opened.IsZero() || s.created.Sub(s.opened) < fresh {
		return ""
	}
	return "\n\n(The description and older comments are not repeated here; github_read shows them.)"
}

func reviewText(state, body string) string {
	verdict := map[string]string{"approved": "Approved these changes.", "changes_requested": "Requested changes."}[strings.ToLower(state)]
	return strings.TrimSpace(verdict + "\n\n" + body)
}

// hunkTail is how many lines of a diff hunk come with an inline comment: the commented line is the last.
const hunkTail = 12

// inlineText says what a comment on a line is about.
func inlineText(s said, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s", s.file)
	if s.line > 0 {
		fmt.Fprintf(&b, ", line %d", s.line)
	}
	b.WriteString(":\n")
	if lines := strings.Split(strings.TrimRight(s.hunk, "\n"), "\n"); s.hunk != "" {
		lines = lines[max(len(lines)-hunkTail, 0):]
		fence := fenceFor(s.hunk)
		fmt.Fprintf(&b, "%sdiff\n%s\n%s\n", fence, strings.Join(lines, "\n"), fence)
	}
	return b.String() + "\n" + body
}

// fenceFor is longer than any run of backticks in a text.
func fenceFor(code string) string {
	longest, run := 2, 0
	for _, r := range code {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	return strings.Repeat("`", longest+1)
}

// The events that carry something to take in. All others are acknowledged and forgotten.
var handled = []string{"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"}

// saidIn reads a webhook. Nothing comes of an action that says nothing to anybody.
func saidIn(event string, payload []byte, me identity) ([]said, error) {
	parsed, err := sdk.ParseWebHook(event, payload)
	if err != nil {
		return nil, err
	}
	var all []said
	switch e := parsed.(type) {
	case *sdk.IssuesEvent:
		s := ofIssue(e.GetRepo(), e.GetIssue())
		all = acts(s, e.GetAction(), e.GetSender(), e.GetAssignee(), nil)
	case *sdk.PullRequestEvent:
		s := ofPull(e.GetRepo(), e.GetPullRequest())
		all = acts(s, e.GetAction(), e.GetSender(), e.GetAssignee(), e.GetRequestedReviewer())
	case *sdk.IssueCommentEvent:
		s := ofComment(e.GetRepo(), e.GetIssue().GetNumber(), e.GetComment())
		s.at.Pull = e.GetIssue().IsPullRequest()
		s.opener, s.opened = lower(e.GetIssue().GetUser()), e.GetIssue().GetCreatedAt().Time
		all = changed(s, e.GetAction())
	case *sdk.PullRequestReviewCommentEvent:
		s := ofInline(e.GetRepo(), e.GetPullRequest().GetNumber(), e.GetComment())
		s.opener, s.opened = lower(e.GetPullRequest().GetUser()), e.GetPullRequest().GetCreatedAt().Time
		all = changed(s, e.GetAction())
	case *sdk.PullRequestReviewEvent:
		s := ofReview(e.GetRepo(), e.GetPullRequest().GetNumber(), e.GetReview())
		s.opener, s.opened = lower(e.GetPullRequest().GetUser()), e.GetPullRequest().GetCreatedAt().Time
		all = changed(s, e.GetAction())
	}
	for i := range all {
		if all[i].id == 0 {
			all[i].id = fallbackID(all[i], payload)
		}
	}
	return all, nil
}

// changed applies an action to something that was said.
func changed(s said, action string) []said {
	switch action {
	case "created", "submitted":
		s.change = adapters.Created
	case "edited":
		s.change = adapters.Edited
	case "deleted":
		s.change = adapters.Deleted
	default:
		return nil
	}
	return []said{s}
}

// acts reads what was done to an issue or pull request.
func acts(s said, action string, sender, assignee, reviewer *sdk.User) []said {
	switch action {
	case "opened":
		s.change = adapters.Created
		return []said{s}
	case "edited", "deleted":
		return changed(s, action)
	case "assigned":
		return []said{act(s, kindAssigned, sender, assignee, s.updated)}
	case "review_requested":
		if reviewer == nil {
			return nil // a team
		}
		return []said{act(s, kindRequested, sender, reviewer, s.updated)}
	}
	return nil
}

// act makes something that was done to an issue. Webhooks do not tell its number, so it goes by when it was done, which
// all reports of it agree on.
func act(issue said, k kind, by, subject *sdk.User, when time.Time) said {
	return said{
		at: issue.at, kind: k, id: when.Unix(), change: adapters.Created, author: by, subject: lower(subject), created: when, updated: when,
		opener: issue.opener, opened: issue.opened,
	}
}

// fallbackID names what came without a number, so that a repeated delivery of it is known all the same.
func fallbackID(s said, payload []byte) int64 {
	what := struct {
		Kind   kind
		Author string
		Body   string
		At     int64
	}{s.kind, lower(s.author), s.body, s.created.Unix()}
	raw, err := json.Marshal(what)
	if err != nil || s.created.IsZero() && s.body == "" {
		raw = payload
	}
	sum := sha256.Sum256(raw)
	return int64(binary.BigEndian.Uint64(sum[:8])>>1) | 1
}

func targetIn(repo *sdk.Repository, number int) target {
	return target{Owner: repo.GetOwner().GetLogin(), Repo: repo.GetName(), Number: number}
}

func ofIssue(repo *sdk.Repository, i *sdk.Issue) said {
	s := said{
		at: targetIn(repo, i.GetNumber()), kind: kindIssue, id: int64(i.GetNumber()), author: i.GetUser(), association: i.GetAuthorAssociation(),
		body: i.GetBody(), title: i.GetTitle(), created: i.GetCreatedAt().Time, updated: i.GetUpdatedAt().Time,
		opener: lower(i.GetUser()), opened: i.GetCreatedAt().Time,
	}
	s.at.Pull = i.IsPullRequest()
	for _, u := range i.Assignees {
		s.bears = append(s.bears, lower(u))
	}
	return s
}

func ofPull(repo *sdk.Repository, p *sdk.PullRequest) said {
	s := said{
		at: targetIn(repo, p.GetNumber()), kind: kindIssue, id: int64(p.GetNumber()), author: p.GetUser(), association: p.GetAuthorAssociation(),
		body: p.GetBody(), title: p.GetTitle(), created: p.GetCreatedAt().Time, updated: p.GetUpdatedAt().Time,
		opener: lower(p.GetUser()), opened: p.GetCreatedAt().Time,
	}
	s.at.Pull = true
	for _, u := range slices.Concat(p.Assignees, p.RequestedReviewers) {
		s.bears = append(s.bears, lower(u))
	}
	return s
}

func ofComment(repo *sdk.Repository, number int, c *sdk.IssueComment) said {
	return said{
		at: targetIn(repo, number), kind: kindComment, id: c.GetID(), author: c.GetUser(), association: c.GetAuthorAssociation(), body: c.GetBody(),
		created: c.GetCreatedAt().Time, updated: c.GetUpdatedAt().Time,
	}
}

func ofInline(repo *sdk.Repository, number int, c *sdk.PullRequestComment) said {
	s := said{
		at: targetIn(repo, number), kind: kindInline, id: c.GetID(), author: c.GetUser(), association: c.GetAuthorAssociation(), body: c.GetBody(),
		created: c.GetCreatedAt().Time, updated: c.GetUpdatedAt().Time, file: c.GetPath(), line: c.GetLine(), hunk: c.GetDiffHunk(),
	}
	if s.line == 0 {
		s.line = c.GetOriginalLine() // the line has gone since
	}
	s.at.Pull, s.at.Thread = true, c.GetID()
	if root := c.GetInReplyTo(); root != 0 {
		s.at.Thread = root
	}
	return s
}

func ofReview(repo *sdk.Repository, number int, r *sdk.PullRequestReview) said {
	s := said{
		at: targetIn(repo, number), kind: kindReview, id: r.GetID(), author: r.GetUser(), association: r.GetAuthorAssociation(), body: r.GetBody(),
		state: r.GetState(), created: r.GetSubmittedAt().Time, updated: r.GetSubmittedAt().Time,
	}
	s.at.Pull = true
	return s
}
