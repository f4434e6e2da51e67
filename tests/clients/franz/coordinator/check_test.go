package main

import (
	"strings"
	"testing"
)

func at(partition int32, offset int64) map[int32]int64 { return map[int32]int64{partition: offset} }

// A history as it should be; each rule breaks on its own change of it.
func clean() []event {
	return []event{
		{What: "assigned", Ended: 10, Member: "a", Generation: 1, Offsets: at(0, 0)},
		{What: "commit", Begun: 20, Ended: 30, Member: "a", Generation: 1, Offsets: at(0, 5)},
		{What: "seen", Begun: 40, Ended: 50, Offsets: at(0, 5)},
		{What: "commit", Begun: 55, Ended: 65, Member: "a", Generation: 1, Offsets: at(0, 9), Error: "unknown"},
		{What: "assigned", Ended: 70, Member: "b", Generation: 2, Offsets: at(0, 0)},
		{What: "read", Begun: 70, Ended: 75, Member: "b", Generation: 2, Offsets: at(0, 9)},
		{What: "commit", Begun: 80, Ended: 90, Member: "b", Generation: 2, Offsets: at(0, 12)},
		{What: "seen", Begun: 100, Ended: 110, Offsets: at(0, 12)},
	}
}

func TestEveryRuleBreaksOnItsOwnMutantOnly(t *testing.T) {
	if broken := check(clean()); len(broken) > 0 {
		t.Fatalf("the clean history: %v", broken)
	}
	for rule, change := range map[string]func([]event){
		"A16: partition 0: seen":   func(e []event) { e[2].Offsets = at(0, 12); e[7].Offsets = at(0, 9) },
		"A16: partition 0: commit": func(e []event) { e[6].Offsets = at(0, 4) },
		"lost: partition 0: seen":  func(e []event) { e[7].Offsets = at(0, 9) },
		"lost: partition 0: read":  func(e []event) { e[5].Offsets = at(0, 0) },
		"invented":                 func(e []event) { e[2].Offsets = at(0, 7) },
		"A17a":                     func(e []event) { e[4].Generation = 1; e[5].Generation = 1; e[6].Generation = 1 },
		"A17b":                     func(e []event) { e[3].Error = ""; e[3].Begun, e[3].Ended = 72, 78 },
	} {
		events := clean()
		change(events)
		broken := check(events)
		if len(broken) == 0 || !strings.HasPrefix(strings.Join(broken, "\n"), rule) && !strings.Contains(strings.Join(broken, "\n"), "\n"+rule) {
			t.Errorf("%s: %v", rule, broken)
		}
	}
}
