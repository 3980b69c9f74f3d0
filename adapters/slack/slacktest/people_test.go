package slacktest_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// heard is what the app would hear of, in order: the events as they were queued, without any connection.
func (s *stage) heard(do func()) []map[string]any {
	s.t.Helper()
	before := len(s.Deliveries())
	do()
	var events []map[string]any
	for _, d := range s.Deliveries()[before:] {
		var payload struct {
			TeamID  string `json:"team_id"`
			Context string `json:"context_team_id"`
			Shared  bool   `json:"is_ext_shared_channel"`
			Event   map[string]any
		}
		if err := json.Unmarshal(d.Payload, &payload); err != nil {
			s.t.Fatal(err)
		}
		payload.Event["envelope_team"], payload.Event["context_team"], payload.Event["shared"] = payload.TeamID, payload.Context, payload.Shared
		events = append(events, payload.Event)
	}
	return events
}

// kinds are the types of events with their subtypes.
func kinds(events []map[string]any) []string {
	out := []string{}
	for _, e := range events {
		kind := e["type"].(string)
		if sub, ok := e["subtype"].(string); ok {
			kind += "/" + sub
		}
		out = append(out, kind)
	}
	return out
}

func TestWhatTheAppHears(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{RetryDelays: []time.Duration{time.Hour}})
	bot := must(s.CreateUser(slacktest.NewUser{Name: "otherbot", Kind: slacktest.Bot}))
	mention := "<@" + s.team.BotUser + "> hi"
	dm := must(s.OpenDM(s.ann.ID))
	group := must(s.CreateChannel(slacktest.NewChannel{Kind: slacktest.GroupDM, Members: []string{s.ann.ID, bot.ID}, WithBot: true}))
	apart := must(s.CreateChannel(slacktest.NewChannel{Name: "apart", Members: []string{s.ann.ID}}))
	if err := s.Join(s.general.ID, bot.ID, ""); err != nil {
		t.Fatal(err)
	}
	root := s.say("root")
	asked := s.say(mention)
	say := func(w slacktest.Saying) func() {
		return func() {
			if w.User == "" {
				w.User = s.ann.ID
			}
			if w.Channel == "" {
				w.Channel = s.general.ID
			}
			if _, err := s.Say(w); err != nil {
				t.Fatal(err)
			}
		}
	}
	edit := func(e slacktest.Editing) func() {
		return func() {
			e.Channel = s.general.ID
			if _, err := s.Edit(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := must(s.CreateFile(slacktest.NewFile{User: s.ann.ID, Name: "a.txt", Content: []byte("a")}))

	for _, c := range []struct {
		name string
		do   func()
		want []string
	}{
		{"a message", say(slacktest.Saying{Text: "x"}), []string{"message"}},
		{"a mention", say(slacktest.Saying{Text: mention}), []string{"message", "app_mention"}},
		{"a mention in a thread", say(slacktest.Saying{Text: mention, Thread: root.TS}), []string{"message", "app_mention"}},
		{"a reply sent to the channel, too", say(slacktest.Saying{Text: "x", Thread: root.TS, Broadcast: true}), []string{"message/thread_broadcast"}},
		{"a mention in a direct message", say(slacktest.Saying{Channel: dm.ID, Text: mention}), []string{"message"}},
		{"a mention in a group's", say(slacktest.Saying{Channel: group.ID, Text: mention}), []string{"message", "app_mention"}},
		{"a mention where the bot is not", say(slacktest.Saying{Channel: apart.ID, Text: mention}), []string{}},
		{"another bot's mention", say(slacktest.Saying{User: bot.ID, Text: mention}), []string{"message", "app_mention"}},
		{"a classic bot's message", say(slacktest.Saying{User: bot.ID, Text: "x", Via: slacktest.ViaClassic}), []string{"message/bot_message"}},
		{"a file", say(slacktest.Saying{Text: "look", Files: []string{file.ID}}), []string{"message/file_share"}},
		{"a topic", say(slacktest.Saying{Text: "x", Subtype: "channel_topic"}), []string{"message/channel_topic"}},
		{"an edit without a mention", edit(slacktest.Editing{TS: root.TS, Text: "y"}), []string{"message/message_changed"}},
		{"an edit that adds the mention", edit(slacktest.Editing{TS: root.TS, Text: mention}), []string{"message/message_changed", "app_mention"}},
		{"a link's preview", edit(slacktest.Editing{TS: asked.TS, Kind: slacktest.EditPreview}), []string{"message/message_changed"}},
		{"the same again", edit(slacktest.Editing{TS: asked.TS, Kind: slacktest.EditSame}), []string{"message/message_changed"}},
		{"a deletion", func() {
			if err := s.Delete(s.general.ID, asked.TS); err != nil {
				t.Fatal(err)
			}
		}, []string{"message/message_deleted"}},
		{"the bot's arrival", func() {
			if err := s.Join(apart.ID, s.team.BotUser, s.ann.ID); err != nil {
				t.Fatal(err)
			}
		}, []string{"message/channel_join", "member_joined_channel"}},
		{"the bot's departure", func() {
			if err := s.Leave(apart.ID, s.team.BotUser); err != nil {
				t.Fatal(err)
			}
		}, []string{"member_left_channel"}},
		{"another name", func() {
			if err := s.Rename(s.general.ID, "lobby"); err != nil {
				t.Fatal(err)
			}
		}, []string{"channel_rename"}},
		{"a look at the home", func() {
			if err := s.OpenHome(s.ann.ID); err != nil {
				t.Fatal(err)
			}
		}, []string{"app_home_opened"}},
		{"a look at the pane", func() { must(s.OpenAssistant(s.ann.ID, s.general.ID)) }, []string{"assistant_thread_started"}},
		{"the app's own post that mentions itself", func() {
			if _, _, err := s.api.PostMessage(s.general.ID, slack.MsgOptionText(mention, false)); err != nil {
				t.Fatal(err)
			}
		}, []string{"message"}},
		{"a private word of the app's", func() {
			if _, err := s.api.PostEphemeral(s.general.ID, s.ann.ID, slack.MsgOptionText("x", false)); err != nil {
				t.Fatal(err)
			}
		}, []string{}},
	} {
		if got := kinds(s.heard(c.do)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	s.SetEvents("app_mention")
	if got := kinds(s.heard(say(slacktest.Saying{Text: mention}))); !slices.Equal(got, []string{"app_mention"}) {
		t.Errorf("subscribed to mentions only: %v", got)
	}
	s.clean()
}

func TestWhoSpeaks(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{RetryDelays: []time.Duration{time.Hour}})
	bot := must(s.CreateUser(slacktest.NewUser{Name: "otherbot", Kind: slacktest.Bot}))
	elsewhere := must(s.CreateTeam(slacktest.NewTeam{Name: "Elsewhere"}))
	stranger := must(s.CreateUser(slacktest.NewUser{Team: elsewhere.ID, Name: "sam"}))
	guest := must(s.CreateUser(slacktest.NewUser{Name: "gus", Kind: slacktest.Guest}))
	shared := must(s.CreateChannel(slacktest.NewChannel{Name: "shared", Members: []string{s.ann.ID, stranger.ID, guest.ID, bot.ID}, WithBot: true, SharedWith: []string{elsewhere.ID}}))
	one := func(w slacktest.Saying) map[string]any {
		w.Channel, w.Text = shared.ID, "x"
		events := s.heard(func() { must(s.Say(w)) })
		if len(events) != 1 {
			t.Fatalf("%v", events)
		}
		return events[0]
	}

	if e := one(slacktest.Saying{User: s.ann.ID}); e["user"] != s.ann.ID || e["client_msg_id"] == nil || e["bot_id"] != nil || e["shared"] != true || e["user_team"] != s.team.ID {
		t.Errorf("a person: %v", e)
	}
	if e := one(slacktest.Saying{User: s.ann.ID, Via: slacktest.ViaUserToken}); e["user"] != s.ann.ID || e["bot_id"] == nil || e["client_msg_id"] != nil {
		t.Errorf("an app in a person's name: %v", e)
	}
	if e := one(slacktest.Saying{User: bot.ID}); e["user"] != bot.ID || e["bot_id"] != bot.BotID {
		t.Errorf("a bot: %v", e)
	}
	if e := one(slacktest.Saying{User: bot.ID, Via: slacktest.ViaClassic}); e["user"] != nil || e["bot_id"] != bot.BotID || e["username"] != "otherbot" {
		t.Errorf("a classic bot: %v", e)
	}
	if e := one(slacktest.Saying{User: stranger.ID}); e["user_team"] != elsewhere.ID || e["envelope_team"] != elsewhere.ID || e["context_team"] != s.team.ID {
		t.Errorf("a stranger: %v", e)
	}
	if e := one(slacktest.Saying{User: s.ann.ID, WithoutTeam: true}); e["team"] != nil || e["context_team"] != s.team.ID {
		t.Errorf("without a team inside: %v", e)
	}
	for id, want := range map[string][2]bool{s.ann.ID: {}, guest.ID: {true, false}, stranger.ID: {false, true}} {
		u, err := s.api.GetUserInfo(id)
		if err != nil || u.IsRestricted != want[0] || u.IsStranger != want[1] {
			t.Errorf("%s: %+v %v", id, u, err)
		}
	}
	ch, err := s.api.GetConversationInfo(&slack.GetConversationInfoInput{ChannelID: shared.ID, IncludeNumMembers: true})
	if err != nil || !ch.IsExtShared || !ch.IsMember || ch.NumMembers != 5 {
		t.Errorf("%+v %v", ch, err)
	}
	s.clean()
}

func TestAnotherWorkspaceWithTheAppIsHeardUnderItsOwnName(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{RetryDelays: []time.Duration{time.Hour}})
	second := must(s.CreateTeam(slacktest.NewTeam{Name: "Second", Installed: true}))
	sue := must(s.CreateUser(slacktest.NewUser{Team: second.ID, Name: "sue"}))
	there := must(s.CreateChannel(slacktest.NewChannel{Team: second.ID, Name: "there", Members: []string{sue.ID}, WithBot: true}))
	events := s.heard(func() { must(s.Say(slacktest.Saying{Channel: there.ID, User: sue.ID, Text: "x"})) })
	if len(events) != 1 || events[0]["envelope_team"] != second.ID {
		t.Errorf("%v", events)
	}
	if _, _, err := s.api.PostMessage(there.ID, slack.MsgOptionText("x", false)); code(err) != "channel_not_found" {
		t.Errorf("one workspace's token in another: %v", err)
	}
	if _, _, err := s.client(second.BotToken).PostMessage(there.ID, slack.MsgOptionText("x", false)); err != nil {
		t.Error(err)
	}
	s.clean()
}

func TestPeopleChannelsAndGroupsAreListedInPages(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{})
	for range 4 {
		u := must(s.CreateUser(slacktest.NewUser{Name: "u"}))
		must(s.CreateChannel(slacktest.NewChannel{Name: "c" + u.ID, Members: []string{u.ID}, WithBot: true}))
	}
	must(s.CreateChannel(slacktest.NewChannel{Name: "without", Members: []string{s.ann.ID}}))
	dm := must(s.OpenDM(s.ann.ID))
	g := must(s.CreateUserGroup(slacktest.UserGroup{Handle: "crew", Users: []string{s.ann.ID}}))
	people, err := s.api.GetUsers(slack.GetUsersOptionLimit(2))
	if err != nil || len(people) != 6 {
		t.Errorf("%d people, %v", len(people), err)
	}
	p := slack.GetConversationsForUserParameters{Types: []string{"public_channel", "private_channel", "im", "mpim"}, Limit: 2}
	var mine []string
	for {
		page, cursor, err := s.api.GetConversationsForUser(&p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			mine = append(mine, c.ID)
		}
		if p.Cursor = cursor; cursor == "" {
			break
		}
	}
	if len(mine) != 6 || !slices.Contains(mine, dm.ID) {
		t.Errorf("the bot's conversations: %v", mine)
	}
	ids, _, err := s.api.GetConversations(&slack.GetConversationsParameters{Types: []string{"public_channel"}, Limit: 100})
	if err != nil || len(ids) != 6 {
		t.Errorf("%d channels, %v", len(ids), err)
	}
	members, _, err := s.api.GetUsersInConversation(&slack.GetUsersInConversationParameters{ChannelID: s.general.ID, Limit: 1})
	if err != nil || len(members) != 1 {
		t.Errorf("%v %v", members, err)
	}
	if users, err := s.api.GetUserGroupMembers(g.ID); err != nil || !slices.Equal(users, []string{s.ann.ID}) {
		t.Errorf("%v %v", users, err)
	}
	opened, _, again, err := s.api.OpenConversation(&slack.OpenConversationParameters{Users: []string{s.ann.ID}})
	if err != nil || !again || opened.ID != dm.ID {
		t.Errorf("%+v %v", opened, err)
	}
	s.clean()
}

func TestAThreadOfThePane(t *testing.T) {
	t.Parallel()
	s := newStage(t, slacktest.Options{RetryDelays: []time.Duration{time.Hour}})
	pane := must(s.OpenAssistant(s.ann.ID, s.general.ID))
	if _, _, err := s.api.PostMessage(pane.Channel, slack.MsgOptionText("hi", false), slack.MsgOptionTS(pane.Thread)); err != nil {
		t.Fatal(err)
	}
	p := slack.AssistantThreadsSetSuggestedPromptsParameters{ChannelID: pane.Channel, ThreadTS: pane.Thread}
	p.AddPrompt("What?", "What can you do?")
	if err := s.api.SetAssistantThreadsSuggestedPrompts(p); err != nil {
		t.Fatal(err)
	}
	asked := must(s.Say(slacktest.Saying{Channel: pane.Channel, User: s.ann.ID, Text: "hello", Thread: pane.Thread}))
	events := s.heard(func() {
		if err := s.api.SetAssistantThreadsTitle(slack.AssistantThreadsSetTitleParameters{ChannelID: pane.Channel, ThreadTS: pane.Thread, Title: "hello"}); err != nil {
			t.Fatal(err)
		}
	})
	if got := kinds(events); !slices.Equal(got, []string{"message/message_changed"}) {
		t.Errorf("a title: %v", got)
	}
	if got := s.AssistantThreads(); len(got) != 1 || got[0].Title != "hello" || got[0].Prompts[0].Message != "What can you do?" {
		t.Errorf("%+v", got)
	}
	thread, _, _, err := s.api.GetConversationReplies(&slack.GetConversationRepliesParameters{ChannelID: pane.Channel, Timestamp: pane.Thread})
	if err != nil || len(thread) != 3 || thread[0].SubType != "assistant_app_thread" || thread[2].Timestamp != asked.TS {
		t.Errorf("%+v %v", thread, err)
	}
	if v := s.Messages(slacktest.Which{Channel: pane.Channel}); len(v) != 2 {
		t.Errorf("people see %+v", v)
	}
	s.clean()
}
