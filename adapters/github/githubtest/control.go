package githubtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// command is the body of a request to /control/<name>; each name reads the fields it needs.
type command struct {
	Login     string               `json:"login"`
	Kind      UserType             `json:"kind"`
	Owner     string               `json:"owner"`
	Name      string               `json:"name"`
	Repo      string               `json:"repo"`
	Private   bool                 `json:"private"`
	Role      string               `json:"role"`
	Token     string               `json:"token"`
	Levels    map[Permission]Level `json:"levels"`
	URL       string               `json:"url"`
	Secret    string               `json:"secret"`
	Events    []string             `json:"events"`
	Number    int64                `json:"number"`
	ID        int64                `json:"id"`
	Title     string               `json:"title"`
	Body      string               `json:"body"`
	Branch    string               `json:"branch"`
	State     string               `json:"state"`
	Assignees []string             `json:"assignees"`
	Files     []File               `json:"files"`
	Inline    []Inline             `json:"inline"`
	Times     int                  `json:"times"`
	Fault     *Fault               `json:"fault"`
	AfterMS   int64                `json:"after_ms"`
}

// control carries out an operation by name: POST /control/comment {"repo":…}. The answer is JSON.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	var in command
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	defer func() {
		if p := recover(); p != nil {
			http.Error(w, "the operation names something that does not exist", http.StatusNotFound)
		}
	}()
	answer, known := s.operate(strings.TrimPrefix(r.URL.Path, "/control/"), in)
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) operate(name string, in command) (any, bool) {
	switch name {
	case "user":
		s.AddUser(in.Login, max(in.Kind, Person))
	case "repo":
		s.AddRepo(in.Owner, in.Name, map[bool]Visibility{true: PrivateRepo, false: PublicRepo}[in.Private])
	case "permit":
		s.Permit(in.Repo, in.Login, in.Role)
	case "token":
		if in.Levels == nil {
			in.Levels = FullLevels()
		}
		s.AddToken(in.Token, in.Login, in.Levels)
	case "hook":
		return object{"id": s.AddHook(max(in.Repo, in.Owner), in.URL, in.Secret, JSONHook, in.Events...)}, true
	case "issue":
		return object{"number": s.OpenIssue(in.Repo, in.Login, in.Title, in.Body, in.Assignees...)}, true
	case "pull":
		return object{"number": s.OpenPull(in.Repo, in.Login, in.Title, in.Body, in.Branch, in.Files...)}, true
	case "comment":
		return object{"id": s.Comment(in.Repo, in.Number, in.Login, in.Body)}, true
	case "edit":
		s.EditComment(in.Repo, in.ID, in.Login, in.Body)
	case "delete":
		s.DeleteComment(in.Repo, in.ID, in.Login)
	case "assign":
		s.Assign(in.Repo, in.Number, in.Login, in.Name)
	case "request-review":
		s.RequestReview(in.Repo, in.Number, in.Login, in.Name)
	case "review":
		id, inline := s.Review(in.Repo, in.Number, in.Login, in.State, in.Body, in.Inline...)
		return object{"id": id, "inline": inline}, true
	case "reply":
		return object{"id": s.ReplyInline(in.Repo, in.Number, in.ID, in.Login, in.Body)}, true
	case "lose-deliveries":
		s.LoseDeliveries(in.Times)
	case "redeliver":
		s.Redeliver(max(in.Times, 1))
	case "break":
		in.Fault.After = time.Duration(in.AfterMS) * time.Millisecond
		s.Break(*in.Fault)
	case "visible":
		return s.Visible(in.Repo, in.Number), true
	case "calls":
		return s.Calls("", ""), true
	case "violations":
		return append([]Violation{}, s.Violations()...), true
	default:
		return nil, false
	}
	return object{}, true
}
