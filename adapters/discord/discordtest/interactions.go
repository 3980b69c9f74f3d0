package discordtest

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// Interaction lifetimes (interactions/receiving-and-responding#followup-messages).
const tokenLives = 15 * time.Minute

// Flags of messages.
const (
	flagEphemeral = 1 << 6
	flagLoading   = 1 << 7
)

// command is an application command, of type 1 (chat input).
type command struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Type        int      `json:"type,omitempty"`
	Options     []option `json:"options,omitempty"`
	Contexts    []int    `json:"contexts,omitempty"`
	Integration []int    `json:"integration_types,omitempty"`
}

type option struct {
	Type        int      `json:"type"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Required    bool     `json:"required,omitempty"`
	Choices     []choice `json:"choices,omitempty"`
}

type choice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

var commandName = regexp.MustCompile(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]{1,32}$`)

func (c command) check() *apiError {
	named := func(field, name, description string) *apiError {
		switch {
		case !commandName.MatchString(name) || strings.ToLower(name) != name:
			return invalid(field+".name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
		case characters(description) < 1 || characters(description) > 100:
			return invalid(field+".description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		}
		return nil
	}
	if err := named("command", c.Name, c.Description); err != nil {
		return err
	}
	if len(c.Options) > 25 {
		return invalid("options", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
	}
	optional := false
	for _, o := range c.Options {
		if err := named("options", o.Name, o.Description); err != nil {
			return err
		}
		if o.Type != 3 || o.Required && optional || len(o.Choices) > 25 {
			return invalid("options", "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", "Required options must be placed before non-required options")
		}
		optional = optional || !o.Required
		for _, ch := range o.Choices {
			if characters(ch.Name) < 1 || characters(ch.Name) > 100 || characters(ch.Value) > 100 {
				return invalid("choices", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
			}
		}
	}
	return nil
}

func (s *Server) listCommands(*request) (any, *apiError) {
	return append([]command{}, s.commands...), nil
}

func (s *Server) overwriteCommands(r *request) (any, *apiError) {
	var all []command
	if err := r.decode(&all); err != nil {
		return nil, err
	}
	if len(all) > 100 {
		return nil, &apiError{status: 400, code: 30032, text: "Maximum number of application commands reached (100)"}
	}
	names := map[string]bool{}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, err
		}
		if names[all[i].Name] {
			return nil, invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}
		names[all[i].Name] = true
		all[i].ID = s.snowflake()
	}
	s.commands = all
	return all, nil
}

func (s *Server) createCommand(r *request) (any, *apiError) {
	var c command
	if err := r.decode(&c); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	c.ID = s.snowflake()
	for i := range s.commands {
		if s.commands[i].Name == c.Name {
			s.commands[i] = c
			return c, nil
		}
	}
	s.commands = append(s.commands, c)
	return c, nil
}

// Commands lists the names of the registered commands.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range s.commands {
		names = append(names, c.Name)
	}
	return names
}

// interaction is one use of a command.
type interaction struct {
	id, token, user string
	channel         *channel
	began           time.Time
	answered        bool
	original        *Message
	whispers        []*Message // what the user alone sees, the original included
}

// Invoke uses a slash command as a user; args are its options. It returns the interaction's id.
func (s *Server) Invoke(channelID, userID, name string, args map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, u := s.channels[channelID], s.users[userID]
	i := &interaction{id: s.snowflake(), token: "aW50ZXJhY3Rpb246" + s.snowflake(), user: userID, channel: c, began: time.Now()}
	s.asked[i.token] = i
	options := []any{}
	for _, k := range sortedKeys(args) {
		options = append(options, map[string]any{"name": k, "type": 3, "value": args[k]})
	}
	e := map[string]any{
		"id": i.id, "application_id": s.bot.ID, "type": 2, "token": i.token, "version": 1, "channel_id": c.id, "channel": s.channelObject(c),
		"data": map[string]any{"id": s.snowflake(), "name": name, "type": 1, "options": options}, "locale": "en-US", "app_permissions": "0", "entitlements": []any{},
	}
	if g := s.guilds[c.guild]; g != nil {
		e["guild_id"] = g.id
		e["member"] = Member{User: u, Roles: g.members[userID].Roles}
	} else {
		e["user"] = u
	}
	s.dispatch("INTERACTION_CREATE", e, 0)
	return i.id
}

// Whispers lists what one user alone was shown in answer to an interaction, oldest first.
func (s *Server) Whispers(interactionID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var seen []Message
	for _, i := range s.asked {
		if i.id == interactionID {
			for _, m := range i.whispers {
				seen = append(seen, *m)
			}
		}
	}
	return seen
}

// Acknowledged tells whether an interaction was answered or deferred.
func (s *Server) Acknowledged(interactionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.asked {
		if i.id == interactionID {
			return i.answered
		}
	}
	return false
}

func (s *Server) callback(r *request) (any, *apiError) {
	i := s.asked[r.id("token")]
	if i == nil || i.id != r.id("interaction") || !i.answered && time.Since(i.began) > s.options.AnswerWithin {
		return nil, &apiError{status: 404, code: 10062, text: "Unknown interaction"}
	}
	if i.answered {
		return nil, &apiError{status: 400, code: 40060, text: "Interaction has already been acknowledged."}
	}
	var p struct {
		Type int             `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := r.decode(&p); err != nil {
		return nil, err
	}
	o, err := s.whisper(r, p.Data)
	if err != nil {
		return nil, err
	}
	switch {
	case p.Type == 4 && (o.Content == nil || strings.TrimSpace(*o.Content) == ""):
		return nil, &apiError{status: 400, code: 50006, text: "Cannot send an empty message"}
	case p.Type != 4 && p.Type != 5:
		return nil, invalid("type", "BASE_TYPE_CHOICES", "4 and 5 answer a command")
	}
	i.answered = true
	i.original = s.shown(i, o)
	if p.Type == 5 {
		i.original.Flags |= flagLoading
	}
	return nil, nil
}

// whisper reads the parameters of a message in answer to an interaction.
func (s *Server) whisper(r *request, raw json.RawMessage) (outgoing, *apiError) {
	var o outgoing
	if len(raw) > 0 {
		if err := (&request{r.Request, raw}).decode(&o); err != nil {
			return o, err
		}
	}
	if _, said := rawFields(raw)["content"]; said && o.AllowedMentions == nil {
		s.violate("an interaction was answered without allowed_mentions")
	}
	if o.Flags&^(flagEphemeral|1<<2) != 0 {
		return o, invalid("flags", "UNSUPPORTED", "EPHEMERAL and SUPPRESS_EMBEDS only")
	}
	return o, o.check()
}

// shown makes a message of an answer: the user's alone when it is ephemeral, everybody's otherwise.
func (s *Server) shown(i *interaction, o outgoing) *Message {
	text := ""
	if o.Content != nil {
		text = *o.Content
	}
	m := s.message(i.channel, s.bot, text)
	m.Type, m.Flags, m.WebhookID = messageCommand, o.Flags, s.bot.ID
	s.mention(m, o.AllowedMentions.may)
	if o.Flags&flagEphemeral == 0 {
		s.append(i.channel, m)
		return m
	}
	i.whispers = append(i.whispers, m)
	return m
}

func (s *Server) followed(r *request) (*interaction, *apiError) {
	i := s.asked[r.id("token")]
	switch {
	case i == nil || time.Since(i.began) > tokenLives:
		return nil, &apiError{status: 401, code: 50027, text: "Invalid Webhook Token"}
	case !i.answered:
		return nil, &apiError{status: 404, code: 10015, text: "Unknown Webhook"}
	}
	return i, nil
}

func (s *Server) followUp(r *request) (any, *apiError) {
	i, err := s.followed(r)
	if err != nil {
		return nil, err
	}
	o, err := s.whisper(r, r.body)
	if err != nil {
		return nil, err
	}
	if o.Content == nil || strings.TrimSpace(*o.Content) == "" {
		return nil, &apiError{status: 400, code: 50006, text: "Cannot send an empty message"}
	}
	return s.shown(i, o), nil
}

func (s *Server) followUpMessage(r *request) (*interaction, *Message, *apiError) {
	i, err := s.followed(r)
	if err != nil {
		return nil, nil, err
	}
	if r.id("message") == "@original" {
		if i.original == nil {
			return nil, nil, errUnknownMessage
		}
		return i, i.original, nil
	}
	for _, m := range i.whispers {
		if m.ID == r.id("message") {
			return i, m, nil
		}
	}
	return nil, nil, errUnknownMessage
}

func (s *Server) getFollowUp(r *request) (any, *apiError) {
	_, m, err := s.followUpMessage(r)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (s *Server) editFollowUp(r *request) (any, *apiError) {
	_, m, err := s.followUpMessage(r)
	if err != nil {
		return nil, err
	}
	o, err := s.whisper(r, r.body)
	if err != nil {
		return nil, err
	}
	if o.Content == nil || strings.TrimSpace(*o.Content) == "" {
		return nil, &apiError{status: 400, code: 50006, text: "Cannot send an empty message"}
	}
	m.Content = strings.TrimSpace(*o.Content)
	m.Flags &^= flagLoading
	m.Edits++
	return m, nil
}

func (s *Server) deleteFollowUp(r *request) (any, *apiError) {
	i, m, err := s.followUpMessage(r)
	if err != nil {
		return nil, err
	}
	kept := i.whispers[:0]
	for _, w := range i.whispers {
		if w != m {
			kept = append(kept, w)
		}
	}
	i.whispers = kept
	if i.original == m {
		i.original = nil
	}
	return nil, nil
}
