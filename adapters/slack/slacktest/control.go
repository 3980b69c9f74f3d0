package slacktest

import "net/http"

func (s *Server) serveControl(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
}
func BotScopes() []string {
	return []string{"app_mentions:read", "assistant:write", "channels:history", "channels:read", "chat:write", "files:read", "files:write", "groups:history", "groups:read", "im:history", "im:read", "im:write", "mpim:history", "mpim:read", "mpim:write", "reactions:write", "usergroups:read", "users:read", "commands"}
}

// Info is what a client needs to know.
type Info struct {
	URL     string `json:"url"`
	API     string `json:"api"`
	Control string `json:"control"`
	Files   string `json:"files"`
	Foreign string `json:"foreign"`
	App     App    `json:"app"`
	Team    Team   `json:"team"`
}

// Info returns the addresses, the app and the first workspace.
func (s *Server) Info() Info {
	return Info{URL: s.url, API: s.APIURL(), Control: s.url + "/control/", Files: s.files, Foreign: s.foreign, App: s.App(), Team: s.Team()}
}
