package telegramtest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// control lets another process play the people and break things:
//
//	POST /control/person, /control/chat          Person, Chat
//	POST /control/say                            Said → {"id": …}
//	POST /control/change                         {"chat", "id", "text"}
//	POST /control/topic                          {"chat", "from", "name"} → {"id": …}
//	POST /control/migrate                        {"chat", "to"}
//	POST /control/stand                          {"chat", "as"}
//	POST /control/fail, /control/mend            Fault
//	POST /control/redeliver                      {"n"}
//	GET  /control/visible?chat=…                 [Seen]
//	GET  /control/calls?method=…                 [Call]
//	GET  /control/violations                     [Violation]
//	GET  /control/menu, /control/pending
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	handle, ok := controls[r.Method+" "+r.URL.Path]
	if !ok {
		http.Error(w, "there is no such control", http.StatusNotFound)
		return
	}
	result, err := handle(s, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result)
}

type order struct {
	Chat int64       `json:"chat"`
	From int64       `json:"from"`
	To   int64       `json:"to"`
	ID   int         `json:"id"`
	N    int         `json:"n"`
	Name string      `json:"name"`
	Text string      `json:"text"`
	As   BotStanding `json:"as"`
}

func ordered[T any](do func(*Server, T) any) func(*Server, *http.Request) (any, error) {
	return func(s *Server, r *http.Request) (any, error) {
		var what T
		if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
			return nil, err
		}
		return do(s, what), nil
	}
}

func asked(do func(*Server, *http.Request) any) func(*Server, *http.Request) (any, error) {
	return func(s *Server, r *http.Request) (any, error) { return do(s, r), nil }
}

var done = map[string]bool{"ok": true}

var controls = map[string]func(*Server, *http.Request) (any, error){
	"POST /control/person": ordered(func(s *Server, p Person) any { s.AddPerson(p); return done }),
	"POST /control/chat":   ordered(func(s *Server, c Chat) any { s.AddChat(c); return done }),
	"POST /control/say":    ordered(func(s *Server, said Said) any { return map[string]int{"id": s.Say(said)} }),
	"POST /control/change": ordered(func(s *Server, o order) any { s.Change(o.Chat, o.ID, o.Text); return done }),
	"POST /control/topic":  ordered(func(s *Server, o order) any { return map[string]int{"id": s.AddTopic(o.Chat, o.From, o.Name)} }),
	"POST /control/migrate": ordered(func(s *Server, o order) any {
		s.Migrate(o.Chat, o.To)
		return done
	}),
	"POST /control/stand":     ordered(func(s *Server, o order) any { s.Stand(o.Chat, o.As); return done }),
	"POST /control/fail":      ordered(func(s *Server, f Fault) any { s.Fail(f); return done }),
	"POST /control/redeliver": ordered(func(s *Server, o order) any { s.Redeliver(o.N); return done }),
	"POST /control/mend":      asked(func(s *Server, _ *http.Request) any { s.Mend(); return done }),
	"GET /control/visible": asked(func(s *Server, r *http.Request) any {
		chat, _ := strconv.ParseInt(r.URL.Query().Get("chat"), 10, 64)
		return s.Visible(chat, 0)
	}),
	"GET /control/calls":      asked(func(s *Server, r *http.Request) any { return s.Calls(r.URL.Query().Get("method")) }),
	"GET /control/violations": asked(func(s *Server, _ *http.Request) any { return s.Violations() }),
	"GET /control/menu":       asked(func(s *Server, _ *http.Request) any { return s.Menu() }),
	"GET /control/pending":    asked(func(s *Server, _ *http.Request) any { return s.Pending() }),
}
