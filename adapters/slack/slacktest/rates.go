package slacktest

import (
	"fmt"
	"time"
)

// SetRates changes what happens beyond a documented rate, and how long a minute is: a scale of 60 makes it a second.
func (s *Server) SetRates(mode RateMode, scale float64) error {
	if scale <= 0 {
		return fmt.Errorf("slacktest: a scale of %v", scale)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Rates, s.opts.RateScale = mode, scale
	s.rates = map[string][]time.Time{}
	return nil
}

// overRate counts a call and tells whether it is beyond a documented rate, and how long until one is allowed again.
// A refused call does not count, so that a client that waits is served.
func (s *Server) overRate(c *call) (retry time.Duration, over bool) {
	if s.opts.Rates == RatesOff {
		return 0, false
	}
	owner := s.app.ID
	if c.team != nil {
		owner = c.team.ID
	}
	now := time.Now()
	minute := time.Duration(float64(time.Minute) / s.opts.RateScale)
	most := c.method.Rate.PerMinute
	if s.opts.History == HistoryScarce && c.method.readsHistory() {
		most = 1
	}
	windows := []window{{key: owner + " " + c.method.Name, span: minute, most: most}}
	if burst := c.method.Rate.PerChannelBurst; burst > 0 {
		// One a second in the long run: as many seconds as the burst allows.
		windows = append(windows, window{key: owner + " " + c.method.Name + " " + c.args.text("channel"),
			span: time.Duration(burst) * minute / 60, most: burst})
	}
	for _, w := range windows {
		if wait, full := s.full(w, now); full {
			s.violate(TooFast, c.method.Name, fmt.Sprintf("more than %d calls in %s (%s)", w.most, w.span, w.key))
			if s.opts.Rates == RatesEnforced {
				return wait, true
			}
			retry, over = wait, true
		}
	}
	for _, w := range windows {
		s.rates[w.key] = append(s.rates[w.key], now)
	}
	return retry, over
}

func (m Method) readsHistory() bool {
	return m.Name == "conversations.history" || m.Name == "conversations.replies"
}

type window struct {
	key  string
	span time.Duration
	most int
}

// full drops what left the window and tells whether what remains fills it.
func (s *Server) full(w window, now time.Time) (time.Duration, bool) {
	list := s.rates[w.key]
	for len(list) > 0 && now.Sub(list[0]) >= w.span {
		list = list[1:]
	}
	s.rates[w.key] = list
	if len(list) < w.most {
		return 0, false
	}
	return w.span - now.Sub(list[len(list)-w.most]), true
}
