package discordtest

import (
	"encoding/json"
	"net/http"
)

// control serves the JSON API by which another process plays the people and the faults:
//
//	GET  /control/state                         {"token", "bot", "api_url"}
//	POST /control/guild      {"name"}           {"id"}
//	POST /control/channel    {"guild", "name"}  {"id"}
//	POST /control/thread     {"channel", "message", "name"}   {"id"}
//	POST /control/user       {"name", "guilds": []}           {"id"}
//	POST /control/dm         {"user"}           {"id"}
//	POST /control/say        an Utterance       {"id"}
//	POST /control/edit       {"channel", "message", "text"}
//	POST /control/delete     {"channel", "message"}
//	POST /control/invoke     {"channel", "user", "command", "options": {}}   {"id"}
//	POST /control/fault      a Fault
//	POST /control/connection {"do": "drop" | "reconnect" | "forget" | "redeliver" | "revoke"}
//	GET  /control/messages?channel=C            what people see, with "pinged" and "reactions"
//	GET  /control/whispers?interaction=I        what one person alone sees
//	GET  /control/calls, /control/violations, /control/commands
func (s *Server) control(mux *http.ServeMux) {
	post := func(path string, do func(d *json.Decoder) (any, error)) {
		mux.HandleFunc("POST /control/"+path, func(w http.ResponseWriter, r *http.Request) {
			result, err := do(json.NewDecoder(r.Body))
			if err != nil {
				reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
				return
			}
			reply(w, http.StatusOK, result)
		})
	}
	get := func(path string, list func(r *http.Request) any) {
		mux.HandleFunc("GET /control/"+path, func(w http.ResponseWriter, r *http.Request) { reply(w, http.StatusOK, list(r)) })
	}
	s.controlPeople(post)
	s.controlFaults(post)
	get("state", func(*http.Request) any {
		return map[string]any{"token": s.Token(), "bot": s.Bot(), "api_url": s.URL()}
	})
	get("messages", func(r *http.Request) any {
		type seen struct {
			Message
			Pinged    []string `json:"pinged"`
			Reactions []string `json:"reactions"`
		}
		list := []seen{}
		for _, m := range s.Messages(r.URL.Query().Get("channel")) {
			list = append(list, seen{m, m.Pinged, m.Reactions})
		}
		return list
	})
	get("whispers", func(r *http.Request) any { return s.Whispers(r.URL.Query().Get("interaction")) })
	get("calls", func(*http.Request) any { return s.Calls("", "") })
	get("violations", func(*http.Request) any { return s.Violations() })
	get("commands", func(*http.Request) any { return s.Commands() })
}

type poster func(path string, do func(d *json.Decoder) (any, error))

func id(value string) any { return map[string]string{"id": value} }

func (s *Server) controlPeople(post poster) {
	post("guild", func(d *json.Decoder) (any, error) {
		var in struct{ Name string }
		err := d.Decode(&in)
		return id(s.AddGuild(in.Name)), err
	})
	post("channel", func(d *json.Decoder) (any, error) {
		var in struct{ Guild, Name string }
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		return id(s.AddChannel(in.Guild, in.Name)), nil
	})
	post("thread", func(d *json.Decoder) (any, error) {
		var in struct{ Channel, Message, Name string }
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		return id(s.OpenThread(in.Channel, in.Message, in.Name)), nil
	})
	post("user", func(d *json.Decoder) (any, error) {
		var in struct {
			Name   string
			Guilds []string
		}
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		user := s.AddUser(in.Name)
		for _, g := range in.Guilds {
			s.Join(g, user)
		}
		return id(user), nil
	})
	post("dm", func(d *json.Decoder) (any, error) {
		var in struct{ User string }
		err := d.Decode(&in)
		return id(s.DM(in.User)), err
	})
	post("say", func(d *json.Decoder) (any, error) {
		var in Utterance
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		return id(s.Say(in)), nil
	})
	post("edit", func(d *json.Decoder) (any, error) {
		var in struct{ Channel, Message, Text string }
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		s.EditText(in.Channel, in.Message, in.Text)
		return id(in.Message), nil
	})
	post("delete", func(d *json.Decoder) (any, error) {
		var in struct{ Channel, Message string }
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		s.Remove(in.Channel, in.Message)
		return id(in.Message), nil
	})
	post("invoke", func(d *json.Decoder) (any, error) {
		var in struct {
			Channel, User, Command string
			Options                map[string]string
		}
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		return id(s.Invoke(in.Channel, in.User, in.Command, in.Options)), nil
	})
}

func (s *Server) controlFaults(post poster) {
	post("fault", func(d *json.Decoder) (any, error) {
		var f Fault
		if err := d.Decode(&f); err != nil {
			return nil, err
		}
		s.Fail(f)
		return f, nil
	})
	post("connection", func(d *json.Decoder) (any, error) {
		var in struct{ Do string }
		if err := d.Decode(&in); err != nil {
			return nil, err
		}
		do, known := map[string]func(){
			"drop": s.DropConnections, "reconnect": s.AskToReconnect, "forget": s.ForgetSessions, "redeliver": s.Redeliver, "revoke": s.Revoke,
		}[in.Do]
		if known {
			do()
		}
		return map[string]bool{"done": known}, nil
	})
}
