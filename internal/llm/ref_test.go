package llm_test

import (
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func TestParseRef(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in                        string
		provider, model, thinking string
		says                      string // part of the error
	}{
		{in: "anthropic/claude-sonnet-5-5", provider: "anthropic", model: "claude-sonnet-5-5", thinking: "off"},
		{in: " anthropic/claude-sonnet-5-5:high\n", provider: "anthropic", model: "claude-sonnet-5-5", thinking: "high"},
		{in: "openai/gpt-6.1-sol:medium", provider: "openai", model: "gpt-6.1-sol", thinking: "medium"},
		{in: "openai/llama3:8b", provider: "openai", model: "llama3:8b", thinking: "off"},
		{in: "openai/llama3:8b:low", provider: "openai", model: "llama3:8b", thinking: "low"},
		{in: "openai-chat/x", provider: "openai-chat", model: "x", thinking: "off"},
		{in: "openrouter/deepseek/deepseek-r1:free", provider: "openrouter", model: "deepseek/deepseek-r1:free", thinking: "off"},
		{in: "openrouter/deepseek/deepseek-r1:free:off", provider: "openrouter", model: "deepseek/deepseek-r1:free", thinking: "off"},
		{in: "demo/demo", provider: "demo", model: "demo", thinking: "off"},
		{in: "", says: "write provider/model"},
		{in: "gpt-5", says: "write provider/model"},
		{in: "/x", says: "write provider/model"},
		{in: "mistral/large", says: "write one of anthropic, openai"},
		{in: "anthropic/", says: "write its name after anthropic/"},
		{in: "anthropic/:high", says: "write its name"},
		{in: "anthropic/two words", says: "without spaces"},
		{in: "anthropic/claude-opus-5-5:hihg", says: "write :off, :low, :medium or :high"},
	}
	for _, tt := range tests {
		ref, err := llm.ParseRef(tt.in)
		if tt.says != "" {
			if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q: error %v, want one that says %q", tt.in, err, tt.says)
			}
			continue
		}
		if err != nil || ref != (llm.Ref{Provider: tt.provider, Model: tt.model, Thinking: llm.Thinking(tt.thinking)}) {
			t.Errorf("%q: %+v, %v", tt.in, ref, err)
		}
		if again, err := llm.ParseRef(ref.String()); err != nil || again != ref {
			t.Errorf("%q prints as %q, which is %+v, %v", tt.in, ref, again, err)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"anthropic/claude-opus-5-5:high", "openrouter/a/b:free:low", "openai/x:off:off", "/", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := llm.ParseRef(s)
		if err != nil {
			return
		}
		// A printed reference may need its level said when the name itself ends in one.
		if again, err := llm.ParseRef(ref.Provider + "/" + ref.Model + ":" + string(ref.Thinking)); err != nil || again != ref {
			t.Errorf("%q: %+v, then %+v, %v", s, ref, again, err)
		}
	})
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	million := llm.Usage{Input: 1_000_000}
	tests := []struct {
		provider, model string
		known           bool
		micro           int64 // cost of a million tokens of input
	}{
		{llm.ProviderAnthropic, "claude-opus-5-5", true, 4_000_000},
		{llm.ProviderAnthropic, "claude-haiku-4-5-20251001", true, 1_000_000},
		{llm.ProviderAnthropic, "claude-haiku-5-5", true, 500_000}, // a long prompt
		{llm.ProviderAnthropic, "claude-opus-5-9", false, 0},
		{llm.ProviderAnthropic, "gpt-5.5", false, 0},
		{llm.ProviderOpenAI, "gpt-5.4-mini-2026-03-17", true, 750_000},
		{llm.ProviderOpenAIChat, "gpt-5", true, 1_250_000},
		{llm.ProviderOpenAIResponses, "gpt-6.1-sol", true, 4_000_000}, // a long prompt
		{llm.ProviderOpenAI, "gpt-5-pro", false, 0},
		{llm.ProviderOpenAI, "llama3:8b", false, 0},
		{llm.ProviderOpenRouter, "anthropic/claude-opus-5.5", true, 4_000_000},
		{llm.ProviderOpenRouter, "openai/gpt-5-mini:nitro", true, 250_000},
		{llm.ProviderOpenRouter, "somebody/new", false, 0},
		{llm.ProviderDemo, "demo", true, 0},
	}
	for _, tt := range tests {
		info := llm.Lookup(tt.provider, tt.model)
		if info.Known != tt.known || info.Window < 8192 || info.MaxOutput < 1024 || info.Thinking == "" {
			t.Errorf("%s/%s: %+v", tt.provider, tt.model, info)
		}
		if micro, ok := info.Cost(million); ok != tt.known || micro != tt.micro {
			t.Errorf("%s/%s: cost %d, %v; want %d", tt.provider, tt.model, micro, ok, tt.micro)
		}
	}
	if micro, ok := llm.Lookup(llm.ProviderOpenRouter, "x/y:free").Cost(million); !ok || micro != 0 {
		t.Errorf("a free model costs %d, %v", micro, ok)
	}
	got, _ := llm.Lookup(llm.ProviderAnthropic, "claude-sonnet-5-5").Cost(llm.Usage{Input: 1, Output: 10, CacheRead: 1000, CacheWrite: 100})
	if want := int64(2 + 100 + 100 + 250); got != want {
		t.Errorf("cost %d, want %d", got, want)
	}
}

func TestProvidersSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	none := llm.NewProviders(llm.ProvidersConfig{})
	for provider, says := range map[string]string{
		llm.ProviderAnthropic: "set ANTHROPIC_API_KEY", llm.ProviderOpenAI: "set OPENAI_API_KEY",
		llm.ProviderOpenAIResponses: "OPENAI_BASE_URL", llm.ProviderOpenRouter: "set OPENROUTER_API_KEY",
	} {
		_, err := none.Model(llm.Ref{Provider: provider, Model: "x"})
		if fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", provider, err)
		}
	}
	if _, err := none.Model(llm.Ref{Provider: "nobody", Model: "x"}); fault.CodeOf(err) != fault.Invalid {
		t.Errorf("an unknown provider: %v", err)
	}
	if ref := none.Default(); ref.Provider != llm.ProviderDemo {
		t.Errorf("default %s", ref)
	}
	keyed := llm.NewProviders(llm.ProvidersConfig{OpenRouter: llm.Endpoint{APIKey: "k"}, Anthropic: llm.Endpoint{APIKey: "k"}})
	for _, ref := range []llm.Ref{keyed.Default(), {Provider: llm.ProviderOpenRouter, Model: "a/b"}, {Provider: llm.ProviderDemo, Model: "demo"}} {
		if _, err := keyed.Model(ref); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if info := llm.Lookup(keyed.Default().Provider, keyed.Default().Model); !info.Known {
		t.Errorf("the default model %s is unknown", keyed.Default())
	}
}

func TestCompatibleServerNeedsNoKeyAndSpeaksChat(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.Always(llmtest.Say("ok")))
	p := llm.NewProviders(llm.ProvidersConfig{OpenAI: llm.Endpoint{BaseURL: s.OpenAIURL()}})
	for provider, want := range map[string]llmtest.Dialect{
		llm.ProviderOpenAI: llmtest.Chat, llm.ProviderOpenAIChat: llmtest.Chat, llm.ProviderOpenAIResponses: llmtest.Responses,
	} {
		m, err := p.Model(llm.Ref{Provider: provider, Model: "llama3"})
		if err != nil {
			t.Fatal(err)
		}
		complete(t, m, llm.Request{Model: "llama3", Messages: userSays("Hi")})
		requests := accepted(t, s)
		last := requests[len(requests)-1]
		if last.Dialect != want || last.Header.Get("Authorization") != "" {
			t.Errorf("%s: dialect %s, authorization %q", provider, last.Dialect, last.Header.Get("Authorization"))
		}
	}
}

func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	s := llmtest.NewServer(t, llmtest.Always(llmtest.Say("ok")))
	for _, d := range dialects {
		complete(t, d.opens(s.URL, nil, 0), d.request(userSays("Hi")))
	}
	for _, r := range accepted(t, s) {
		if strings.Contains(r.Header.Get("Authorization"), "environment") || strings.Contains(r.Header.Get("X-Api-Key"), "environment") {
			t.Errorf("%s: %v", r.Dialect, r.Header)
		}
	}
}
