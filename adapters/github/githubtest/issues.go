package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.values[name], 10, 64)
	return n
}

func (c *call) text(name string) string {
	v, _ := c.body[name].(string)
	return v
}

func (c *call) strings(name string) []string {
	all := []string{}
	list, _ := c.body[name].([]any)
	for _, v := range list {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// page cuts a list as GitHub does: 30 a page by default, with the other pages in the Link header.
func page[T any](c *call, all []T, show func(T) object) reply {
	size, at := 30, 1
	if n, err := strconv.Atoi(c.query["per_page"]); err == nil {
		size = min(max(n, 1), 100)
	}
	if n, err := strconv.Atoi(c.query["page"]); err == nil {
		at = max(n, 1)
	}
	last := max((len(all)+size-1)/size, 1)
	from := min((at-1)*size, len(all))
	shown := []object{}
	for _, v := range all[from:min(from+size, len(all))] {
		shown = append(shown, show(v))
	}
	a := ok(shown)
	links := []string{}
	link := func(n int, rel string) {
		links = append(links, fmt.Sprintf(`<%s%s>; rel=%q`, c.s.URL, c.pageURL(n), rel))
	}
	if at > 1 {
		link(1, "first")
		link(at-1, "prev")
	}
	if at < last {
		link(at+1, "next")
		link(last, "last")
	}
	if len(links) > 0 {
		a.header = map[string]string{"Link": strings.Join(links, ", ")}
	}
	return a
}

func (c *call) pageURL(n int) string {
	path := c.route.Path
	for name, v := range c.values {
		path = strings.Replace(path, "{"+name+"}", v, 1)
	}
	query := []string{}
	for name, v := range c.query {
		if name != "page" {
			query = append(query, name+"="+v)
		}
	}
	slices.Sort(query)
	return path + "?" + strings.Join(append(query, "page="+strconv.Itoa(n)), "&")
}

// since drops what was updated before the time that the query asks for, and sorts as it says.
func since[T any](c *call, all []T, updated, made func(T) time.Time) []T {
	if t, err := time.Parse(time.RFC3339, c.query["since"]); err == nil {
		all = slices.DeleteFunc(slices.Clone(all), func(v T) bool { return updated(v).Truncate(time.Second).Before(t) })
	} else {
		all = slices.Clone(all)
	}
	by := made
	if c.query["sort"] == "updated" {
		by = updated
	}
	slices.SortStableFunc(all, func(a, b T) int { return by(a).Compare(by(b)) })
	if c.query["direction"] == "desc" {
		slices.Reverse(all)
	}
	return all
}

func (c *call) getUser() reply { return ok(c.s.userJSON(c.login)) }

func (c *call) getRepo() reply { return ok(c.s.repoJSON(c.repo)) }

func (c *call) getPermission() reply {
	u := c.s.userJSON(c.values["user"])
	if u == nil {
		return notFound()
	}
	if own := c.repo.permissions[strings.ToLower(c.login)]; own != "admin" && own != "write" {
		return refusal(http.StatusForbidden, "Must have push access to view collaborator permission.")
	}
	level := c.repo.permissions[strings.ToLower(c.values["user"])]
	switch {
	case strings.EqualFold(c.values["user"], c.repo.owner):
		level = "admin"
	case level == "" && !c.repo.private:
		level = "read"
	case level == "":
		level = "none"
	}
	role := level
	switch level { // the coarse field knows four levels only
	case "maintain":
		level = "write"
	case "triage":
		level = "read"
	}
	return ok(object{"permission": level, "role_name": role, "user": u})
}

func (c *call) issue() *issue { return c.repo.issues[c.number("number")] }

func (c *call) listIssues() reply {
	all := slices.DeleteFunc(c.repo.sortedIssues(), func(i *issue) bool {
		state := c.query["state"]
		return state == "" && i.state != "open" || (state == "open" || state == "closed") && i.state != state ||
			c.query["creator"] != "" && !strings.EqualFold(i.author, c.query["creator"])
	})
	if c.query["direction"] == "" {
		c.query["direction"] = "desc"
		defer delete(c.query, "direction")
	}
	all = since(c, all, func(i *issue) time.Time { return i.updatedAt }, func(i *issue) time.Time { return i.createdAt })
	return page(c, all, func(i *issue) object { return c.s.issueJSON(c.repo, i) })
}

func (c *call) getIssue() reply {
	i := c.issue()
	switch {
	case i == nil:
		return notFound()
	case i.gone:
		return refusal(http.StatusGone, "This issue was deleted")
	}
	return ok(c.s.issueJSON(c.repo, i))
}

func (c *call) createIssue() reply {
	i := c.s.newIssue(c.repo, c.login, c.text("title"), c.text("body"))
	i.labels, i.assignees = c.strings("labels"), c.strings("assignees")
	c.send("issues", "opened", object{"issue": c.s.issueJSON(c.repo, i)})
	return created(c.s.issueJSON(c.repo, i))
}

func (c *call) editIssue() reply {
	i := c.issue()
	if i == nil {
		return notFound()
	}
	if !c.mayChange(i.author) {
		return refusal(http.StatusForbidden, "Must have admin rights to Repository.")
	}
	action := "edited"
	if v := c.text("title"); v != "" {
		i.title = v
	}
	if _, set := c.body["body"]; set {
		i.body = c.text("body")
	}
	if v := c.text("state"); v != "" {
		if v != "open" && v != "closed" {
			return invalid("Issue", "state", "invalid")
		}
		i.state, action = v, map[string]string{"open": "reopened", "closed": "closed"}[v]
	}
	i.updatedAt = c.s.clock()
	c.send("issues", action, object{"issue": c.s.issueJSON(c.repo, i)})
	return ok(c.s.issueJSON(c.repo, i))
}

func (c *call) addLabels() reply {
	i := c.issue()
	if i == nil {
		return notFound()
	}
	shown := []object{}
	for _, l := range c.strings("labels") {
		if !slices.Contains(i.labels, l) {
			i.labels = append(i.labels, l)
		}
	}
	for _, l := range i.labels {
		shown = append(shown, object{"name": l})
	}
	i.updatedAt = c.s.clock()
	return ok(shown)
}

// mayChange holds for one's own contributions and for who may write to the repository.
func (c *call) mayChange(author string) bool {
	own := c.repo.permissions[strings.ToLower(c.login)]
	return strings.EqualFold(author, c.login) || own == "write" || own == "admin"
}

func (c *call) timeline() reply {
	i := c.issue()
	if i == nil {
		return notFound()
	}
	type item struct {
		at   time.Time
		show object
	}
	all := []item{}
	for _, m := range i.comments {
		o := c.s.commentJSON(c.repo, i, m)
		o["event"], o["actor"] = "commented", o["user"]
		all = append(all, item{m.createdAt, o})
	}
	for _, e := range i.events {
		o := object{"id": e.id, "event": e.kind, "actor": c.s.userJSON(e.actor), "created_at": stamp(e.createdAt)}
		switch e.kind {
		case "assigned", "unassigned":
			o["assignee"] = c.s.userJSON(e.subject)
		case "review_requested":
			o["requested_reviewer"], o["review_requester"] = c.s.userJSON(e.subject), c.s.userJSON(e.actor)
		}
		all = append(all, item{e.createdAt, o})
	}
	if i.pull != nil {
		for _, v := range i.pull.reviews {
			o := c.s.reviewJSON(c.repo, i, v)
			o["event"], o["state"] = "reviewed", v.state
			all = append(all, item{v.submittedAt, o})
		}
	}
	slices.SortStableFunc(all, func(a, b item) int { return a.at.Compare(b.at) })
	return page(c, all, func(i item) object { return i.show })
}

// reactions finds what a reaction route is about.
func (c *call) reactions() *[]reacted {
	switch {
	case strings.Contains(c.route.Path, "/issues/comments/"):
		if _, m := plain.find(c.repo, c.number("id")); m != nil {
			return &m.reactions
		}
	case strings.Contains(c.route.Path, "/pulls/comments/"):
		if _, m := inline.find(c.repo, c.number("id")); m != nil {
			return &m.reactions
		}
	default:
		if i := c.issue(); i != nil {
			return &i.reactions
		}
	}
	return nil
}

var contents = []string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}

func (c *call) reactionJSON(r reacted) object {
	return object{"id": r.id, "content": r.content, "user": c.s.userJSON(r.login), "created_at": stamp(r.at)}
}

func (c *call) listReactions() reply {
	list := c.reactions()
	if list == nil {
		return notFound()
	}
	all := slices.DeleteFunc(slices.Clone(*list), func(r reacted) bool { return c.query["content"] != "" && r.content != c.query["content"] })
	return page(c, all, c.reactionJSON)
}

// react answers 200 when the account has reacted so before.
func (c *call) react() reply {
	list := c.reactions()
	if list == nil {
		return notFound()
	}
	if !slices.Contains(contents, c.text("content")) {
		return invalid("Reaction", "content", "invalid")
	}
	for _, r := range *list {
		if r.login == c.login && r.content == c.text("content") {
			return ok(c.reactionJSON(r))
		}
	}
	r := reacted{id: c.s.id(), login: c.login, content: c.text("content"), at: c.s.said}
	*list = append(*list, r)
	return created(c.reactionJSON(r))
}

func (c *call) unreact() reply {
	list := c.reactions()
	if list == nil {
		return notFound()
	}
	kept := slices.DeleteFunc(*list, func(r reacted) bool { return r.id == c.number("rid") && r.login == c.login })
	if len(kept) == len(*list) {
		return notFound()
	}
	*list = kept
	return noContent()
}
