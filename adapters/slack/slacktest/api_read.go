package slacktest

import (
	"encoding/base64"
	"slices"
	"strings"
)

func (s *Server) authTest(c *call) (reply, *apiError) {
	if c.team == nil {
		return reply{"app_name": s.app.Name, "app_id": s.app.ID}, nil
	}
	u, _ := s.user(c.team.BotUser)
	return reply{"url": "https://" + c.team.Domain + ".slack.com/", "team": c.team.Name, "team_id": c.team.ID,
		"user": u.Name, "user_id": u.ID, "bot_id": c.team.BotID, "is_enterprise_install": false}, nil
}

func (s *Server) botsInfo(c *call) (reply, *apiError) {
	id := c.args.text("bot")
	if id == "" {
		return nil, wrong("missing_argument", "bot")
	}
	u, ok := find(s.users, func(u *User) bool { return u.BotID == id })
	if !ok {
		return nil, refuse("bot_not_found")
	}
	return reply{"bot": reply{"id": u.BotID, "deleted": u.Kind == Deactivated, "name": u.Name, "updated": 1600000000, "app_id": u.AppID, "user_id": u.ID, "icons": reply{}}}, nil
}

// knows tells whether people of a workspace can see a user: one of their own, or one met in a shared channel.
func (s *Server) knows(team string, u *User) bool {
	return u.TeamID == team || slices.ContainsFunc(s.channels, func(ch *Channel) bool { return ch.reaches(team) && ch.has(u.ID) })
}

func (s *Server) wireUser(team string, u *User) reply {
	out := reply{
		"id": u.ID, "team_id": u.TeamID, "name": u.Name, "real_name": u.RealName, "deleted": u.Kind == Deactivated, "tz": u.TimeZone,
		"is_bot": u.Kind == Bot, "is_restricted": u.Kind == Guest || u.Kind == SingleChannelGuest, "is_ultra_restricted": u.Kind == SingleChannelGuest,
		"is_stranger": u.TeamID != team, "is_app_user": false, "updated": 1600000000,
		"profile": reply{"real_name": u.RealName, "display_name": u.DisplayName, "team": u.TeamID, "bot_id": u.BotID, "api_app_id": u.AppID},
	}
	if u.TeamID == team {
		out["is_admin"], out["is_owner"] = false, false
	}
	return out
}

func (s *Server) usersInfo(c *call) (reply, *apiError) {
	u, ok := s.user(c.args.text("user"))
	if !ok {
		return nil, refuse("user_not_found")
	}
	if !s.knows(c.team.ID, u) {
		return nil, refuse("user_not_visible")
	}
	return reply{"user": s.wireUser(c.team.ID, u)}, nil
}

func (s *Server) usersList(c *call) (reply, *apiError) {
	var members []reply
	for _, u := range s.users {
		if s.knows(c.team.ID, u) {
			members = append(members, s.wireUser(c.team.ID, u))
		}
	}
	page, next, e := paged(c, members, "user", 1000, byID, sameID)
	if e != nil {
		return nil, e
	}
	return reply{"members": page, "cache_ts": s.now().Unix(), "response_metadata": reply{"next_cursor": next}}, nil
}

func (s *Server) usergroupsList(c *call) (reply, *apiError) {
	groups := []reply{}
	for _, g := range s.groups {
		if g.TeamID != c.team.ID {
			continue
		}
		out := reply{"id": g.ID, "team_id": g.TeamID, "is_usergroup": true, "name": g.Handle, "handle": g.Handle, "date_delete": 0}
		if c.args.flag("include_users") {
			out["users"] = g.Users
		}
		if c.args.flag("include_count") {
			out["user_count"] = len(g.Users)
		}
		groups = append(groups, out)
	}
	return reply{"usergroups": groups}, nil
}

func (s *Server) usergroupsUsersList(c *call) (reply, *apiError) {
	g, ok := find(s.groups, func(g *UserGroup) bool { return g.ID == c.args.text("usergroup") && g.TeamID == c.team.ID })
	if !ok {
		return nil, refuse("no_such_subteam")
	}
	return reply{"users": g.Users}, nil
}

func (s *Server) wireChannel(c *call, ch *Channel) reply {
	shared := len(ch.SharedWith) > 0
	out := reply{
		"id": ch.ID, "created": 1600000000, "is_archived": ch.Archived, "context_team_id": c.team.ID,
		"is_channel": ch.Kind == PublicChannel || ch.Kind == PrivateChannel, "is_group": ch.Kind == PrivateChannel || ch.Kind == GroupDM,
		"is_im": ch.Kind == DirectMessage, "is_mpim": ch.Kind == GroupDM, "is_private": ch.Kind != PublicChannel,
		"is_shared": shared, "is_ext_shared": shared, "is_org_shared": false,
		"is_member": ch.has(c.team.BotUser), "is_open": true,
	}
	if shared {
		out["shared_team_ids"] = append([]string{ch.TeamID}, ch.SharedWith...)
		out["conversation_host_id"] = ch.TeamID
	}
	if ch.Kind == DirectMessage {
		other, _ := find(ch.Members, func(id string) bool { return id != c.team.BotUser })
		out["user"] = other
		return out
	}
	out["name"], out["name_normalized"] = ch.Name, ch.Name
	out["topic"], out["purpose"] = reply{"value": ch.Topic}, reply{"value": ""}
	if c.args.flag("include_num_members") {
		out["num_members"] = len(ch.Members)
	}
	return out
}

func (s *Server) conversationsInfo(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	return reply{"channel": s.wireChannel(c, ch)}, nil
}

func (s *Server) conversationsList(c *call) (reply, *apiError) {
	return s.listChannels(c, func(ch *Channel) bool { return ch.Kind == PublicChannel || ch.has(c.team.BotUser) })
}

func (s *Server) usersConversations(c *call) (reply, *apiError) {
	user := c.args.text("user")
	if user == "" {
		user = c.team.BotUser
	}
	return s.listChannels(c, func(ch *Channel) bool {
		return ch.has(user) && (ch.Kind == PublicChannel || ch.has(c.team.BotUser))
	})
}

func (s *Server) listChannels(c *call, shown func(*Channel) bool) (reply, *apiError) {
	kinds := s.kindsNamed(c)
	for _, k := range kinds {
		if !slices.Contains([]ChannelKind{PublicChannel, PrivateChannel, DirectMessage, GroupDM}, k) {
			return nil, wrong("invalid_types", "%s", k)
		}
	}
	out := []reply{}
	for _, ch := range s.channels {
		if ch.reaches(c.team.ID) && slices.Contains(kinds, ch.Kind) && shown(ch) && (!ch.Archived || !c.args.flag("exclude_archived")) {
			out = append(out, s.wireChannel(c, ch))
		}
	}
	page, next, e := paged(c, out, "channel", 100, byID, sameID)
	if e != nil {
		return nil, e
	}
	return reply{"channels": page, "response_metadata": reply{"next_cursor": next}}, nil
}

func (s *Server) conversationsMembers(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	page, next, e := paged(c, ch.Members, "member", 100, self, same)
	if e != nil {
		return nil, e
	}
	return reply{"members": page, "response_metadata": reply{"next_cursor": next}}, nil
}

// conversationsOpen finds or makes the direct message, or the group's, with the people that are named.
func (s *Server) conversationsOpen(c *call) (reply, *apiError) {
	if id := c.args.text("channel"); id != "" {
		ch, e := s.meet(c, id)
		if e != nil {
			return nil, e
		}
		return reply{"channel": reply{"id": ch.ID}}, nil
	}
	people := c.args.words("users")
	if len(people) == 0 {
		return nil, wrong("users_list_not_supplied", "neither channel nor users")
	}
	members := []string{c.team.BotUser}
	for _, id := range people {
		u, ok := s.user(id)
		switch {
		case !ok:
			return nil, refuse("user_not_found")
		case u.Kind == Deactivated:
			return nil, refuse("user_disabled")
		case !s.knows(c.team.ID, u):
			return nil, refuse("user_not_visible")
		}
		members = append(members, id)
	}
	kind := DirectMessage
	if len(people) > 1 {
		kind = GroupDM
	}
	slices.Sort(members)
	ch, ok := find(s.channels, func(ch *Channel) bool {
		have := slices.Sorted(slices.Values(ch.Members))
		return ch.TeamID == c.team.ID && ch.Kind == kind && slices.Equal(have, members)
	})
	if ok {
		return reply{"no_op": true, "already_open": true, "channel": reply{"id": ch.ID}}, nil
	}
	if c.args.flag("prevent_creation") {
		return nil, refuse("channel_not_found")
	}
	ch = s.addChannel(&Channel{TeamID: c.team.ID, Kind: kind, Members: members})
	return reply{"channel": reply{"id": ch.ID}}, nil
}

// conversationsHistory reads the top level, newest first. Replies are in it only when broadcast.
func (s *Server) conversationsHistory(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	if !ch.has(c.team.BotUser) {
		return nil, refuse("not_in_channel")
	}
	var top []*Message
	for _, m := range slices.Backward(ch.messages) {
		threaded := m.ThreadTS != "" && m.ThreadTS != m.TS
		if m.EphemeralTo != "" || threaded && !m.Broadcast || m.Deleted && len(ch.replies(m.TS)) == 0 {
			continue
		}
		if within(c, m.TS) {
			top = append(top, m)
		}
	}
	s.ration(c)
	page, next, e := paged(c, top, "next_ts", 100, byTS, notAfter)
	if e != nil {
		return nil, e
	}
	return reply{"messages": s.wireAll(c, page), "has_more": next != "", "pin_count": 0, "response_metadata": reply{"next_cursor": next}}, nil
}

// conversationsReplies reads a thread: the parent on each page, then replies, oldest first.
func (s *Server) conversationsReplies(c *call) (reply, *apiError) {
	ch, e := s.meet(c, c.args.text("channel"))
	if e != nil {
		return nil, e
	}
	if !ch.has(c.team.BotUser) {
		return nil, refuse("not_in_channel")
	}
	ts := c.args.text("ts")
	parent, ok := ch.any(ts)
	if !ok || parent.EphemeralTo != "" || parent.Deleted && len(ch.replies(ts)) == 0 {
		return nil, refuse("thread_not_found")
	}
	var list []*Message
	for _, m := range ch.replies(ts) {
		if within(c, m.TS) {
			list = append(list, m)
		}
	}
	s.ration(c)
	page, next, e := paged(c, list, "next_ts", 1000, byTS, notBefore)
	if e != nil {
		return nil, e
	}
	page = append([]*Message{parent}, page...)
	return reply{"messages": s.wireAll(c, page), "has_more": next != "", "response_metadata": reply{"next_cursor": next}}, nil
}

// ration cuts the size of a page for apps that may read little.
func (s *Server) ration(c *call) {
	if s.opts.History == HistoryScarce {
		c.args["limit"] = min(15, c.args.number("limit", 15))
	}
}

func (s *Server) wireAll(c *call, list []*Message) []reply {
	show := WithoutMetadata
	if c.args.flag("include_all_metadata") {
		show = WithMetadata
	}
	out := []reply{}
	for _, m := range list {
		s.expireStream(m)
		out = append(out, withheld(c.team, s.wire(m, show)))
	}
	return out
}

// within applies oldest and latest, which exclude their own moment unless inclusive.
func within(c *call, ts string) bool {
	at, _ := parseTS(ts)
	if v := c.args.text("oldest"); v != "" {
		limit, _ := parseTS(v)
		if at < limit || at == limit && !c.args.flag("inclusive") {
			return false
		}
	}
	if v := c.args.text("latest"); v != "" {
		limit, _ := parseTS(v)
		if at > limit || at == limit && !c.args.flag("inclusive") {
			return false
		}
	}
	return true
}

// paged cuts a page out of a list. A cursor names the item that the next page begins with, and resumes tells whether
// an item is that one or beyond it, so that items which come or go meanwhile shift nothing.
func paged[T any](c *call, all []T, name string, otherwise int, key func(T) string, resumes func(T, string) bool) ([]T, string, *apiError) {
	start := 0
	if cursor := c.args.text("cursor"); cursor != "" {
		raw, err := base64.StdEncoding.DecodeString(cursor)
		from, ok := strings.CutPrefix(string(raw), name+":")
		if err != nil || !ok {
			return nil, "", wrong("invalid_cursor", "%s", cursor)
		}
		if start = slices.IndexFunc(all, func(v T) bool { return resumes(v, from) }); start < 0 {
			start = len(all)
		}
	}
	end := min(start+max(1, c.args.number("limit", otherwise)), len(all))
	next := ""
	if end < len(all) {
		next = base64.StdEncoding.EncodeToString([]byte(name + ":" + key(all[end])))
	}
	return slices.Clone(all[start:end]), next, nil
}

func byID(v reply) string                 { id, _ := v["id"].(string); return id }
func sameID(v reply, id string) bool      { return byID(v) == id }
func self(v string) string                { return v }
func same(a, b string) bool               { return a == b }
func byTS(m *Message) string              { return m.TS }
func notAfter(m *Message, ts string) bool { return m.TS <= ts }
func notBefore(m *Message, ts string) bool {
	return m.TS >= ts
}
