package githubtest

import "strings"

// Permission is a repository or organisation permission of a fine-grained token.
// https://docs.github.com/en/rest/authentication/permissions-required-for-fine-grained-personal-access-tokens
type Permission string

// The permissions that the table needs.
const (
	Metadata     Permission = "metadata"
	Issues       Permission = "issues"
	PullRequests Permission = "pull_requests"
	Contents     Permission = "contents"
	Checks       Permission = "checks"
	Statuses     Permission = "statuses"
	Webhooks     Permission = "repository_hooks"
	OrgWebhooks  Permission = "organization_hooks"
)

// Level of a permission. Write holds Read.
type Level int

// The levels.
const (
	None Level = iota
	Read
	Write
)

func (l Level) String() string { return [...]string{"none", "read", "write"}[l] }

// Need is one permission that opens a route; any one of a route's needs is enough.
type Need struct {
	Permission Permission
	Level      Level
}

// Kind is the JSON type of a body's field.
type Kind int

// The kinds.
const (
	Text Kind = iota
	Number
	Bool
	List
)

// Field is one field of a request's body.
type Field struct {
	Name     string
	Kind     Kind
	Required bool
	Max      int // most characters of a text; 0: no limit of its own
}

// Cost tells which secondary limit a call counts for.
type Cost int

// The costs: content-generating calls have a limit of their own.
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
const (
	Plain Cost = iota
	Content
)

// Route is a line of the table.
type Route struct {
	Method string
	Path   string // {number} and {id} take digits only, {path...} the rest
	Needs  []Need // empty: any valid token
	Query  []string
	Body   []Field // nil: no body is taken
	Cost   Cost
	Doc    string
	handle func(*call) reply
}

// maxBody is GitHub's limit for the body of an issue, comment or review, in characters.
const maxBody = 65_536

const docs = "https://docs.github.com/en/rest/"

func any2(l Level) []Need               { return []Need{{Issues, l}, {PullRequests, l}} }
func need(p Permission, l Level) []Need { return []Need{{p, l}} }

var (
	paging   = []string{"per_page", "page"}
	updates  = []string{"per_page", "page", "since", "sort", "direction"}
	cursored = []string{"per_page", "cursor"}
	bodyOnly = []Field{{Name: "body", Required: true, Max: maxBody}}
	reaction = []Field{{Name: "content", Required: true}}
)

// Routes is everything that may be called.
func Routes() []Route {
	const r = "/repos/{owner}/{repo}"
	return []Route{
		{"GET", "/user", nil, nil, nil, Plain, docs + "users/users#get-the-authenticated-user", (*call).getUser},
		{"GET", r, need(Metadata, Read), nil, nil, Plain, docs + "repos/repos#get-a-repository", (*call).getRepo},
		{"GET", r + "/collaborators/{user}/permission", need(Metadata, Read), nil, nil, Plain, docs + "collaborators/collaborators#get-repository-permissions-for-a-user", (*call).getPermission},

		{"GET", r + "/issues", any2(Read), append([]string{"state", "creator"}, updates...), nil, Plain, docs + "issues/issues#list-repository-issues", (*call).listIssues},
		{"POST", r + "/issues", need(Issues, Write), nil, []Field{{Name: "title", Required: true, Max: 256}, {Name: "body", Max: maxBody}, {Name: "labels", Kind: List}, {Name: "assignees", Kind: List}}, Content, docs + "issues/issues#create-an-issue", (*call).createIssue},
		{"GET", r + "/issues/comments", any2(Read), updates, nil, Plain, docs + "issues/comments#list-issue-comments-for-a-repository", plain.listOfRepo},
		{"GET", r + "/issues/comments/{id}", any2(Read), nil, nil, Plain, docs + "issues/comments#get-an-issue-comment", plain.get},
		{"PATCH", r + "/issues/comments/{id}", any2(Write), nil, bodyOnly, Content, docs + "issues/comments#update-an-issue-comment", plain.edit},
		{"DELETE", r + "/issues/comments/{id}", any2(Write), nil, nil, Plain, docs + "issues/comments#delete-an-issue-comment", plain.delete},
		{"GET", r + "/issues/comments/{id}/reactions", any2(Read), append([]string{"content"}, paging...), nil, Plain, docs + "reactions/reactions#list-reactions-for-an-issue-comment", (*call).listReactions},
		{"POST", r + "/issues/comments/{id}/reactions", any2(Write), nil, reaction, Content, docs + "reactions/reactions#create-reaction-for-an-issue-comment", (*call).react},
		{"DELETE", r + "/issues/comments/{id}/reactions/{rid}", any2(Write), nil, nil, Plain, docs + "reactions/reactions#delete-an-issue-comment-reaction", (*call).unreact},
		{"GET", r + "/issues/{number}", any2(Read), nil, nil, Plain, docs + "issues/issues#get-an-issue", (*call).getIssue},
		{"PATCH", r + "/issues/{number}", any2(Write), nil, []Field{{Name: "title", Max: 256}, {Name: "body", Max: maxBody}, {Name: "state"}, {Name: "state_reason"}}, Content, docs + "issues/issues#update-an-issue", (*call).editIssue},
		{"GET", r + "/issues/{number}/comments", any2(Read), updates, nil, Plain, docs + "issues/comments#list-issue-comments", plain.listOfIssue},
		{"POST", r + "/issues/{number}/comments", any2(Write), nil, bodyOnly, Content, docs + "issues/comments#create-an-issue-comment", (*call).createComment},
		{"POST", r + "/issues/{number}/labels", any2(Write), nil, []Field{{Name: "labels", Kind: List, Required: true}}, Content, docs + "issues/labels#add-labels-to-an-issue", (*call).addLabels},
		{"GET", r + "/issues/{number}/reactions", any2(Read), append([]string{"content"}, paging...), nil, Plain, docs + "reactions/reactions#list-reactions-for-an-issue", (*call).listReactions},
		{"POST", r + "/issues/{number}/reactions", any2(Write), nil, reaction, Content, docs + "reactions/reactions#create-reaction-for-an-issue", (*call).react},
		{"DELETE", r + "/issues/{number}/reactions/{rid}", any2(Write), nil, nil, Plain, docs + "reactions/reactions#delete-an-issue-reaction", (*call).unreact},
		{"GET", r + "/issues/{number}/timeline", any2(Read), paging, nil, Plain, docs + "issues/timeline#list-timeline-events-for-an-issue", (*call).timeline},

		{"GET", r + "/pulls", need(PullRequests, Read), append([]string{"state", "head", "base"}, paging...), nil, Plain, docs + "pulls/pulls#list-pull-requests", (*call).listPulls},
		{"POST", r + "/pulls", need(PullRequests, Write), nil, []Field{{Name: "title", Required: true, Max: 256}, {Name: "head", Required: true}, {Name: "base", Required: true}, {Name: "body", Max: maxBody}, {Name: "draft", Kind: Bool}}, Content, docs + "pulls/pulls#create-a-pull-request", (*call).createPull},
		{"GET", r + "/pulls/comments", need(PullRequests, Read), updates, nil, Plain, docs + "pulls/comments#list-review-comments-in-a-repository", inline.listOfRepo},
		{"GET", r + "/pulls/comments/{id}", need(PullRequests, Read), nil, nil, Plain, docs + "pulls/comments#get-a-review-comment-for-a-pull-request", inline.get},
		{"PATCH", r + "/pulls/comments/{id}", need(PullRequests, Write), nil, bodyOnly, Content, docs + "pulls/comments#update-a-review-comment-for-a-pull-request", inline.edit},
		{"DELETE", r + "/pulls/comments/{id}", need(PullRequests, Write), nil, nil, Plain, docs + "pulls/comments#delete-a-review-comment-for-a-pull-request", inline.delete},
		{"GET", r + "/pulls/comments/{id}/reactions", need(PullRequests, Read), append([]string{"content"}, paging...), nil, Plain, docs + "reactions/reactions#list-reactions-for-a-pull-request-review-comment", (*call).listReactions},
		{"POST", r + "/pulls/comments/{id}/reactions", need(PullRequests, Write), nil, reaction, Content, docs + "reactions/reactions#create-reaction-for-a-pull-request-review-comment", (*call).react},
		{"DELETE", r + "/pulls/comments/{id}/reactions/{rid}", need(PullRequests, Write), nil, nil, Plain, docs + "reactions/reactions#delete-a-pull-request-comment-reaction", (*call).unreact},
		{"GET", r + "/pulls/{number}", need(PullRequests, Read), nil, nil, Plain, docs + "pulls/pulls#get-a-pull-request", (*call).getPull},
		{"GET", r + "/pulls/{number}/files", need(PullRequests, Read), paging, nil, Plain, docs + "pulls/pulls#list-pull-requests-files", (*call).listFiles},
		{"GET", r + "/pulls/{number}/reviews", need(PullRequests, Read), paging, nil, Plain, docs + "pulls/reviews#list-reviews-for-a-pull-request", (*call).listReviews},
		{"GET", r + "/pulls/{number}/reviews/{id}", need(PullRequests, Read), nil, nil, Plain, docs + "pulls/reviews#get-a-review-for-a-pull-request", (*call).getReview},
		{"GET", r + "/pulls/{number}/comments", need(PullRequests, Read), updates, nil, Plain, docs + "pulls/comments#list-review-comments-on-a-pull-request", inline.listOfIssue},
		{"POST", r + "/pulls/{number}/comments", need(PullRequests, Write), nil, []Field{{Name: "body", Required: true, Max: maxBody}, {Name: "in_reply_to", Kind: Number, Required: true}}, Content, docs + "pulls/comments#create-a-review-comment-for-a-pull-request", (*call).replyInline},

		{"GET", r + "/contents/{path...}", need(Contents, Read), []string{"ref"}, nil, Plain, docs + "repos/contents#get-repository-content", (*call).getContents},
		{"GET", r + "/git/ref/{path...}", need(Contents, Read), nil, nil, Plain, docs + "git/refs#get-a-reference", (*call).getRef},
		{"POST", r + "/git/refs", need(Contents, Write), nil, []Field{{Name: "ref", Required: true}, {Name: "sha", Required: true}}, Plain, docs + "git/refs#create-a-reference", (*call).createRef},
		{"PATCH", r + "/git/refs/{path...}", need(Contents, Write), nil, []Field{{Name: "sha", Required: true}, {Name: "force", Kind: Bool}}, Plain, docs + "git/refs#update-a-reference", (*call).updateRef},
		{"GET", r + "/git/commits/{sha}", need(Contents, Read), nil, nil, Plain, docs + "git/commits#get-a-commit-object", (*call).getCommit},
		{"POST", r + "/git/commits", need(Contents, Write), nil, []Field{{Name: "message", Required: true}, {Name: "tree", Required: true}, {Name: "parents", Kind: List}}, Plain, docs + "git/commits#create-a-commit", (*call).createCommit},
		{"POST", r + "/git/trees", need(Contents, Write), nil, []Field{{Name: "base_tree"}, {Name: "tree", Kind: List, Required: true}}, Plain, docs + "git/trees#create-a-tree", (*call).createTree},
		{"GET", r + "/commits/{sha}/check-runs", need(Checks, Read), append([]string{"filter"}, paging...), nil, Plain, docs + "checks/runs#list-check-runs-for-a-git-reference", (*call).checkRuns},
		{"GET", r + "/commits/{sha}/status", need(Statuses, Read), paging, nil, Plain, docs + "commits/statuses#get-the-combined-status-for-a-specific-reference", (*call).combinedStatus},

		{"GET", r + "/hooks", need(Webhooks, Read), paging, nil, Plain, docs + "repos/webhooks#list-repository-webhooks", (*call).listHooks},
		{"GET", r + "/hooks/{id}/deliveries", need(Webhooks, Read), cursored, nil, Plain, docs + "repos/webhooks#list-deliveries-for-a-repository-webhook", (*call).listDeliveries},
		{"POST", r + "/hooks/{id}/deliveries/{rid}/attempts", need(Webhooks, Write), nil, nil, Plain, docs + "repos/webhooks#redeliver-a-delivery-for-a-repository-webhook", (*call).attempt},
		{"GET", "/orgs/{org}/hooks", need(OrgWebhooks, Read), paging, nil, Plain, docs + "orgs/webhooks#list-organization-webhooks", (*call).listHooks},
		{"GET", "/orgs/{org}/hooks/{id}/deliveries", need(OrgWebhooks, Read), cursored, nil, Plain, docs + "orgs/webhooks#list-deliveries-for-an-organization-webhook", (*call).listDeliveries},
		{"POST", "/orgs/{org}/hooks/{id}/deliveries/{rid}/attempts", need(OrgWebhooks, Write), nil, nil, Plain, docs + "orgs/webhooks#redeliver-a-delivery-for-an-organization-webhook", (*call).attempt},

		// Not of the API: where pictures in comments are.
		{"GET", "/user-attachments/assets/{name}", nil, nil, nil, Plain, "https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/attaching-files", (*call).asset},
	}
}

// match finds a path's route among those of a method; found is true when the path is known with another method.
func match(table []Route, method, path string) (route *Route, values map[string]string, found bool) {
	have := strings.Split(strings.Trim(path, "/"), "/")
	for i := range table {
		v, ok := fits(strings.Split(strings.Trim(table[i].Path, "/"), "/"), have)
		if !ok {
			continue
		}
		found = true
		if table[i].Method == method {
			return &table[i], v, true
		}
	}
	return nil, nil, found
}

func fits(want, have []string) (map[string]string, bool) {
	values := map[string]string{}
	for i, w := range want {
		if name, rest := strings.CutSuffix(w, "...}"); rest {
			if i >= len(have) {
				return nil, false
			}
			values[name[1:]] = strings.Join(have[i:], "/")
			return values, true
		}
		if i >= len(have) {
			return nil, false
		}
		if !strings.HasPrefix(w, "{") {
			if w != have[i] {
				return nil, false
			}
			continue
		}
		name := strings.Trim(w, "{}")
		if (name == "number" || name == "id" || name == "rid") && strings.Trim(have[i], "0123456789") != "" || have[i] == "" {
			return nil, false
		}
		values[name] = have[i]
	}
	return values, len(want) == len(have)
}
